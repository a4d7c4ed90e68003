from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.fleet.structures.overlap_score import OverlapScore
from smg.fleet.worker import LoadReport, Worker


class ClosedBreaker:
    def admits(self, now):
        return True


def fleet(*waiting_tokens):
    """Workers with so many prompt tokens waiting; None for one that does not report."""
    return [
        Worker(
            str(n),
            f"http://{n}",
            f"http://{n}",
            ClosedBreaker(),
            report=None if tokens is None else LoadReport(waiting_uncached_tokens=tokens),
        )
        for n, tokens in enumerate(waiting_tokens)
    ]


def best(score, workers, overlaps, request_tokens=100, rng=None):
    known = dict(zip(workers, overlaps, strict=True))
    return [each.id for each in score.best(workers, known, request_tokens, rng or Random(1))]


def test_nothing_is_weighed_in_by_default():
    assert not OverlapScore().applies
    assert OverlapScore(decay=0.1).applies
    assert OverlapScore(temperature=0.1).applies


def test_without_decay_the_longest_beginning_is_best_and_equals_are_all_named():
    assert best(OverlapScore(), fleet(900, 0, 0), [80, 80, 40]) == ["0", "1"]


def test_decay_discounts_by_the_work_beyond_the_least_in_requests_like_this_one():
    workers = fleet(300, 100, 100)
    # Two requests of 100 tokens more than the least: 90 / (1 + 0.5 * 2) = 45.
    assert best(OverlapScore(decay=0.5), workers, [90, 44, 20]) == ["0"]
    assert best(OverlapScore(decay=0.5), workers, [90, 46, 20]) == ["1"]
    assert best(OverlapScore(decay=0.5), workers, [90, 45, 20]) == ["0", "1"]


def test_what_all_candidates_have_waiting_discounts_nobody():
    assert best(OverlapScore(decay=9.0), fleet(5000, 5000), [51, 50]) == ["0"]


def test_waiting_requests_stand_in_for_tokens_and_what_was_sent_since_counts():
    workers = fleet(0, 0)
    workers[0].report = LoadReport(waiting_requests=1)
    assert best(OverlapScore(decay=1.0), workers, [100, 90]) == ["1"]
    workers[0].report = LoadReport()
    workers[0].dispatched_tokens = 500
    assert best(OverlapScore(decay=1.0), workers, [100, 90]) == ["1"]


def test_a_worker_that_does_not_report_is_not_discounted():
    assert best(OverlapScore(decay=1.0), fleet(None, 0), [100, 99]) == ["0"]


def test_an_empty_request_is_no_division_by_zero():
    assert best(OverlapScore(decay=1.0), fleet(1, 0), [1, 1], request_tokens=0) == ["1"]


@pytest.mark.parametrize(("temperature", "least", "most"), [(0.001, 1.0, 1.0), (1.0, 0.68, 0.78), (1000.0, 0.45, 0.55)])
def test_temperature_draws_by_a_softmax_of_the_stretched_scores(temperature, least, most):
    # At 1 the chances are e to 1: 73 per cent for the better one.
    rng, workers = Random(7), fleet(0, 0)
    score = OverlapScore(temperature=temperature)
    drawn = Counter(best(score, workers, [1000, 10], rng=rng)[0] for _ in range(2000))
    assert least <= drawn["0"] / 2000 <= most


def test_equal_scores_are_drawn_from_evenly():
    rng, workers = Random(7), fleet(0, 0, 0)
    drawn = Counter(best(OverlapScore(temperature=0.1), workers, [5, 5, 5], rng=rng)[0] for _ in range(3000))
    assert all(abs(count - 1000) < 120 for count in drawn.values())


@given(
    st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 10**9)), st.integers(1, 10**9)), min_size=1, max_size=8),
    st.floats(0, 1e6),
    st.floats(0, 1e6),
    st.floats(0, 1e9),
)
def test_whatever_the_numbers_are_somebody_is_chosen(states, decay, temperature, request_tokens):
    workers = fleet(*[waiting for waiting, _ in states])
    chosen = best(OverlapScore(decay, temperature), workers, [known for _, known in states], request_tokens)
    assert chosen
    assert set(chosen) <= {worker.id for worker in workers}


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 1000)), min_size=2, max_size=6), st.floats(0, 10))
def test_more_work_at_the_best_worker_never_makes_it_better(states, decay):
    workers = fleet(*[waiting for waiting, _ in states])
    overlaps = [known for _, known in states]
    before = best(OverlapScore(decay), workers, overlaps)
    loser = next((worker for worker in workers if worker.id not in before), None)
    if loser is not None:
        loser.dispatched_tokens += 500
        assert loser.id not in best(OverlapScore(decay), workers, overlaps)
