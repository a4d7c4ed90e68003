from collections import Counter

import pytest

from smg.fleet.hints import NO_HINTS
from smg.fleet.policies.power_of_two import PowerOfTwo, PowerOfTwoOptions
from smg.fleet.worker import LoadReport


def tally(policy, workers, count=600):
    return Counter(policy.select(workers, NO_HINTS).id for _ in range(count))


def test_the_busiest_of_the_fleet_is_never_taken(bench, fleet):
    drawn = tally(PowerOfTwo(bench.context()), fleet(5, 0, 3))
    assert set(drawn) == {"1", "2"}
    assert drawn["1"] > drawn["2"]


def test_equal_workers_share_evenly(bench, fleet):
    drawn = tally(PowerOfTwo(bench.context()), fleet(2, 2, 2), 3000)
    assert all(abs(drawn[name] - 1000) < 120 for name in "012")


def test_a_reported_backlog_outweighs_requests_in_flight(bench, fleet):
    workers = fleet(0, 9)
    workers[0].report = LoadReport(waiting_requests=50)
    workers[1].report = LoadReport()
    assert set(tally(PowerOfTwo(bench.context()), workers)) == {"1"}


@pytest.mark.parametrize("metric", ["requests", "least_requests"])
def test_the_operator_may_prefer_requests_in_flight(bench, fleet, metric):
    workers = fleet(0, 9)
    workers[0].report = LoadReport(waiting_requests=50)
    workers[1].report = LoadReport()
    policy = PowerOfTwo(bench.context(), PowerOfTwoOptions(metric))
    assert set(tally(policy, workers)) == {"0"}


def test_a_single_worker_is_taken(bench, fleet):
    workers = fleet(7)
    assert PowerOfTwo(bench.context()).select(workers, NO_HINTS) is workers[0]
