"""Who gets a realtime session."""

from random import Random

import pytest

from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.hints import NO_HINTS
from smg.fleet.policies.base import PolicyContext
from smg.fleet.realtime import LeastInFlight, OneForAll, speaks_realtime
from smg.fleet.worker import Worker


def worker(name, **members):
    labels = {"realtime": "true"}
    url = f"http://{name}"
    return Worker(name, url, url, Breaker(BreakerOptions()), **{"labels": labels, **members})


@pytest.mark.parametrize(
    "members",
    [
        {"labels": {}},
        {"labels": {"realtime": "false"}},
        {"labels": {"realtime": "True"}},
        {"worker_type": "prefill"},
        {"connection_mode": "grpc"},
    ],
)
def test_only_labelled_regular_http_workers_take_part(members):
    one = worker("one")
    assert speaks_realtime([one, worker("two", **members)], 0.0) == [one]


def test_the_one_with_the_least_in_flight_is_taken():
    policy = LeastInFlight(PolicyContext(Random(1), lambda: 0.0))
    workers = [worker("a", load=3), worker("b", load=1), worker("c", load=2)]
    assert policy.select(workers, NO_HINTS) is workers[1]
    assert OneForAll(policy).of("any") is policy


def test_equal_ones_are_drawn_from():
    policy = LeastInFlight(PolicyContext(Random(1), lambda: 0.0))
    workers = [worker(name) for name in "abc"]
    assert {policy.select(workers, NO_HINTS).id for _ in range(50)} == set("abc")
