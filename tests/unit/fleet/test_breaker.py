"""The circuit breaker's three states and every way between them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.fleet.breaker import Breaker, BreakerOptions, State
from smg.fleet.statuses import CAPACITY_STATUSES as UNCOUNTED_STATUSES
from smg.fleet.statuses import FAILURE_STATUSES

OPTIONS = BreakerOptions(failure_threshold=3, success_threshold=2, timeout_secs=10.0)


@pytest.fixture
def moves():
    return []


@pytest.fixture
def breaker(moves):
    return Breaker(OPTIONS, lambda old, new: moves.append((old, new)))


def fail(breaker, times, now=0.0):
    for _ in range(times):
        breaker.failed(now)


def test_it_starts_closed_and_admits(breaker):
    assert breaker.state is State.CLOSED
    assert breaker.admits(0.0)


def test_failures_in_a_row_open_it(breaker, moves):
    fail(breaker, 2)
    assert breaker.admits(0.0)
    fail(breaker, 1)
    assert breaker.state is State.OPEN
    assert not breaker.admits(9.9)
    assert moves == [(State.CLOSED, State.OPEN)]


def test_a_success_between_starts_the_count_anew(breaker):
    fail(breaker, 2)
    breaker.succeeded()
    fail(breaker, 2)
    assert breaker.state is State.CLOSED


def test_an_open_breaker_becomes_half_open_when_asked_after_its_time(breaker, moves):
    fail(breaker, 3, now=5.0)
    assert not breaker.admits(14.9)
    assert breaker.state is State.OPEN
    assert breaker.admits(15.0)
    assert breaker.state is State.HALF_OPEN
    assert breaker.admits(15.0)
    assert moves[-1] == (State.OPEN, State.HALF_OPEN)


def test_late_results_of_earlier_requests_do_not_move_an_open_breaker(breaker):
    fail(breaker, 3, now=0.0)
    fail(breaker, 5, now=9.0)
    for _ in range(5):
        breaker.succeeded()
    assert breaker.state is State.OPEN
    assert breaker.admits(10.0)
    breaker.succeeded()
    assert breaker.state is State.HALF_OPEN


def test_successes_in_a_row_close_a_half_open_breaker(breaker, moves):
    fail(breaker, 3)
    breaker.admits(10.0)
    breaker.succeeded()
    assert breaker.state is State.HALF_OPEN
    breaker.succeeded()
    assert breaker.state is State.CLOSED
    assert breaker.failures == 0
    fail(breaker, 2)
    assert breaker.state is State.CLOSED
    assert moves[-1] == (State.HALF_OPEN, State.CLOSED)


def test_one_failure_opens_a_half_open_breaker_again_for_the_whole_time(breaker):
    fail(breaker, 3)
    breaker.admits(10.0)
    breaker.succeeded()
    breaker.failed(12.0)
    assert breaker.state is State.OPEN
    assert not breaker.admits(21.9)
    assert breaker.admits(22.0)
    breaker.succeeded()
    assert breaker.state is State.HALF_OPEN


def test_a_disabled_breaker_counts_and_never_opens():
    breaker = Breaker(BreakerOptions(failure_threshold=2, enabled=False))
    fail(breaker, 100)
    assert breaker.failures == 100
    assert breaker.admits(0.0)
    assert breaker.state is State.CLOSED


def test_a_status_is_a_failure_or_uncounted_but_never_both():
    assert frozenset({408, 500, 502, 503, 504}) == FAILURE_STATUSES
    assert frozenset({429}) == UNCOUNTED_STATUSES


@given(st.lists(st.one_of(st.just("good"), st.just("bad"), st.floats(0.1, 15.0)), max_size=60))
def test_any_history_follows_the_table(history):
    moves = []
    breaker = Breaker(OPTIONS, lambda old, new: moves.append((old, new)))
    now, opened, row = 0.0, 0.0, 0
    for event in history:
        before = breaker.state
        if event == "good":
            breaker.succeeded()
            row = 0
            assert breaker.state in {before, State.CLOSED}
        elif event == "bad":
            breaker.failed(now)
            row += 1
            if before is not State.OPEN and breaker.state is State.OPEN:
                opened = now
                assert before is State.HALF_OPEN or row >= OPTIONS.failure_threshold
        else:
            now += event
            assert breaker.admits(now) is (before is not State.OPEN or now >= opened + OPTIONS.timeout_secs)
    allowed = {
        (State.CLOSED, State.OPEN),
        (State.OPEN, State.HALF_OPEN),
        (State.HALF_OPEN, State.OPEN),
        (State.HALF_OPEN, State.CLOSED),
    }
    assert set(moves) <= allowed
    assert all(earlier[1] is later[0] for earlier, later in pairwise(moves))
