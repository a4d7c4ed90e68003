"""A token bucket never gives more than its capacity and what has flowed in since."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.admission.bucket import TokenBucket


def test_a_bucket_starts_full_and_is_emptied():
    bucket = TokenBucket(3, 1.0, now=10.0)
    assert [bucket.take(1, 10.0) for _ in range(4)] == [True, True, True, False]
    assert bucket.level(10.0) == 0


def test_tokens_flow_in_continuously_up_to_the_capacity():
    bucket = TokenBucket(2, 4.0, now=0.0)
    bucket.take(2, 0.0)
    assert bucket.level(0.125) == 0.5
    assert not bucket.take(1, 0.125)
    assert bucket.take(1, 0.25)
    assert bucket.level(100.0) == 2
    assert not bucket.take(2.5, 100.0)


def test_all_tokens_are_taken_or_none():
    bucket = TokenBucket(5, 1.0, now=0.0)
    bucket.take(3, 0.0)
    assert not bucket.take(3, 0.0)
    assert bucket.take(2, 0.0)


def test_the_wait_is_until_the_tokens_are_there():
    bucket = TokenBucket(2, 4.0, now=0.0)
    assert bucket.wait_secs(2, 0.0) == 0
    bucket.take(2, 0.0)
    assert bucket.wait_secs(1, 0.0) == pytest.approx(0.25)
    assert bucket.wait_secs(2, 0.25) == pytest.approx(0.25)
    assert bucket.wait_secs(3, 0.0) is None


steps = st.lists(st.tuples(st.floats(0, 5), st.floats(0.1, 4)), max_size=40)


@given(st.floats(1, 10), st.floats(0.1, 10), steps)
def test_no_more_is_given_than_was_there_and_flowed_in(capacity, per_sec, steps):
    bucket = TokenBucket(capacity, per_sec, now=0.0)
    now = given_out = 0.0
    for pause, tokens in steps:
        now += pause
        if bucket.take(tokens, now):
            given_out += tokens
        assert 0 <= bucket.level(now) <= capacity
        assert given_out <= capacity + now * per_sec + 1e-6


@given(st.floats(1, 10), st.floats(0.1, 10), steps)
def test_after_the_wait_the_tokens_are_there(capacity, per_sec, steps):
    bucket = TokenBucket(capacity, per_sec, now=0.0)
    now = 0.0
    for pause, tokens in steps:
        now += pause
        wait_secs = bucket.wait_secs(tokens, now)
        if wait_secs is None:
            assert not bucket.take(tokens, now)
        else:
            now += wait_secs + 1e-9
            assert bucket.take(tokens, now)


def test_what_is_spent_already_may_leave_a_debt():
    bucket = TokenBucket(10, 1.0, now=0.0)
    bucket.spend(25, 0.0)
    assert bucket.level(0.0) == -15
    assert bucket.wait_secs(5, 0.0) == 20
    assert not bucket.take(1, 15.0)
    assert bucket.take(1, 16.0)


def test_what_is_given_back_does_not_overflow():
    bucket = TokenBucket(10, 1.0, now=0.0)
    bucket.spend(4, 0.0)
    bucket.spend(-3, 0.0)
    assert bucket.level(0.0) == 9
    bucket.spend(-100, 0.0)
    assert bucket.level(0.0) == 10
