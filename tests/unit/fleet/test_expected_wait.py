from collections import Counter
from math import inf, nan
from random import Random

import pytest

from smg.fleet.expected_wait import ExpectedWait, WaitTuning, fewest_in_flight, lowest
from smg.fleet.worker import LoadReport, Worker


class ClosedBreaker:
    def admits(self, now):
        return True


def worker(name="a", report=None, load=0, dispatched=0):
    url = f"http://{name}"
    return Worker(name, url, url, ClosedBreaker(), report=report, load=load, dispatched_tokens=dispatched)


def score(tuning=None, **reported):
    dispatched = reported.pop("dispatched", 0)
    return ExpectedWait(tuning).scores([worker(report=LoadReport(**reported), dispatched=dispatched)])[0]


def test_queued_and_dispatched_tokens_wait_for_the_reported_throughput():
    assert score(waiting_uncached_tokens=3000, throughput_tokens_per_sec=500.0, dispatched=1000) == 8


def test_without_a_token_count_each_waiting_request_is_a_mean_prompt():
    assert score(waiting_requests=3, throughput_tokens_per_sec=1024.0) == 3
    tuning = WaitTuning(mean_prefill_tokens=100)
    assert score(tuning, waiting_requests=3, throughput_tokens_per_sec=100.0) == 3


def test_reported_tokens_win_over_waiting_requests():
    assert score(waiting_requests=9, waiting_uncached_tokens=0) == 0


@pytest.mark.parametrize("silent", [None, 0.0, -1.0, nan])
def test_a_throughput_that_says_nothing_is_replaced_by_the_default(silent):
    assert score(waiting_uncached_tokens=4000, throughput_tokens_per_sec=silent) == 2
    tuning = WaitTuning(default_throughput=1000.0)
    assert score(tuning, waiting_uncached_tokens=4000, throughput_tokens_per_sec=silent) == 4


def test_a_filling_cache_adds_to_the_wait():
    assert score(token_usage=0.5) == pytest.approx(0.15)
    assert score(token_usage=0.9) == pytest.approx(1.35)
    assert score(WaitTuning(kv_pressure_weight=2.0), token_usage=0.5) == pytest.approx(2)


@pytest.mark.parametrize("full", [1.0, 1.5, inf])
def test_a_full_cache_weighs_much_but_not_without_end(full):
    assert 100 < score(token_usage=full) < 1000


@pytest.mark.parametrize("silent", [None, 0.0, -0.5, nan])
def test_a_usage_that_says_nothing_adds_nothing(silent):
    assert score(token_usage=silent) == 0


def test_a_new_report_replaces_the_old_one_and_dispatches_count_at_once():
    waits = ExpectedWait()
    one = worker(report=LoadReport(waiting_uncached_tokens=2000))
    assert waits.scores([one]) == [1]
    one.dispatched_tokens = 2000
    assert waits.scores([one]) == [2]
    one.report, one.dispatched_tokens = LoadReport(waiting_uncached_tokens=0), 0
    assert waits.scores([one]) == [0]


def test_another_worker_at_the_same_url_is_scored_by_its_own_report():
    waits = ExpectedWait()
    assert waits.scores([worker(report=LoadReport(waiting_uncached_tokens=2000))]) == [1]
    assert waits.scores([worker(report=LoadReport(waiting_uncached_tokens=4000))]) == [2]


def test_a_silent_worker_among_reporting_ones_gets_the_best_wait_plus_its_requests():
    fleet = [
        worker("a", LoadReport(waiting_uncached_tokens=2000)),
        worker("b", LoadReport(waiting_uncached_tokens=8000)),
        worker("c", load=3),
        worker("d"),
    ]
    assert ExpectedWait().scores(fleet) == [1, 4, 4, 1]


def test_when_nobody_reports_requests_in_flight_are_compared():
    assert ExpectedWait().scores([worker("a", load=2), worker("b", load=5)]) == [2, 5]


def test_nothing_is_kept_of_a_forgotten_worker():
    waits = ExpectedWait()
    waits.scores([worker("a", LoadReport()), worker("b", LoadReport())])
    waits.forget("http://a")
    waits.forget("http://nobody")
    assert list(waits._known) == ["http://b"]


def test_the_least_wait_wins():
    fleet = [worker("a", LoadReport(waiting_requests=1)), worker("b", LoadReport())]
    assert ExpectedWait().least(fleet, Random(1)) is fleet[1]


def test_the_fewest_requests_in_flight_win():
    fleet = [worker("a", load=2), worker("b", load=1), worker("c", load=2)]
    assert fewest_in_flight(fleet, Random(1)) is fleet[1]


@pytest.mark.parametrize("scores", [[1, 1, 1, 1], [1, 2, 1, 1], [9, 1, 9, 1]])
def test_exact_ties_are_drawn_from_evenly(scores):
    fleet, rng = [worker(name) for name in "abcd"], Random(1)
    drawn = Counter(lowest(fleet, scores, rng).id for _ in range(4000))
    tied = [one.id for one, each in zip(fleet, scores, strict=True) if each == 1]
    assert set(drawn) == set(tied)
    assert all(abs(drawn[name] - 4000 / len(tied)) < 200 for name in tied)
