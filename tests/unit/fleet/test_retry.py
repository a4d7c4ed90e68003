"""How long to wait before another attempt."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.fleet.retry import RetryOptions
from smg.fleet.statuses import ELSEWHERE_STATUSES, RETRYABLE_STATUSES


class Rng(random.Random):
    """Draws one end of every range."""

    def __init__(self, end):
        super().__init__(0)
        self.end = end

    def uniform(self, a, b):
        return (a, (a + b) / 2, b)[self.end]


def test_the_wait_grows_from_retry_to_retry_up_to_the_cap():
    options = RetryOptions(initial_backoff_ms=100, max_backoff_ms=1000, backoff_multiplier=2, jitter_factor=0)
    assert [options.delay_secs(n, random.Random(0)) for n in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_the_cap_holds_before_the_jitter():
    options = RetryOptions(initial_backoff_ms=100, max_backoff_ms=200, backoff_multiplier=10, jitter_factor=0.5)
    assert [options.delay_secs(5, Rng(end)) for end in range(3)] == pytest.approx([0.1, 0.2, 0.3])


@pytest.mark.parametrize("multiplier", [10.0, 10, 1.5, 1e300])
def test_a_great_many_retries_wait_the_cap(multiplier):
    options = RetryOptions(backoff_multiplier=multiplier, jitter_factor=0, max_backoff_ms=7000)
    assert options.delay_secs(100_000, random.Random(0)) == 7.0


@given(st.floats(0.1, 1e4), st.floats(1, 10), st.floats(0, 1), st.integers(0, 500), st.integers())
def test_the_wait_is_never_negative_nor_beyond_cap_and_jitter(initial_ms, multiplier, jitter, retry, seed):
    options = RetryOptions(
        initial_backoff_ms=initial_ms, max_backoff_ms=1e5, backoff_multiplier=multiplier, jitter_factor=jitter
    )
    assert 0 <= options.delay_secs(retry, random.Random(seed)) <= 100 * (1 + jitter) + 1e-9


def test_what_may_be_retried_and_what_only_elsewhere():
    assert frozenset({408, 429, 500, 502, 503, 504}) == RETRYABLE_STATUSES
    assert ELSEWHERE_STATUSES < RETRYABLE_STATUSES
