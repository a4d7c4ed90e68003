import pytest

from smg.engines.load import RankLoad
from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.load import (
    DEFAULT_THRESHOLDS,
    READ_REPORTS,
    OverloadOptions,
    Thresholds,
    is_overloaded,
    report_of,
    thresholds_of,
)
from smg.fleet.policies import POLICIES
from smg.fleet.spec import OverloadSpec, WorkerSpec
from smg.fleet.worker import LoadReport, Worker

ON = OverloadOptions(enabled=True, thresholds=Thresholds(4, 0.9))
OFF = OverloadOptions(enabled=False, thresholds=Thresholds(4, 0.9))


def worker(**overload):
    spec = WorkerSpec(url="http://a", overload=OverloadSpec(**overload))
    return Worker("a", "http://a", "http://a", Breaker(BreakerOptions()), spec=spec)


def rank(running=0, waiting=0, **fields):
    return RankLoad(num_running_reqs=running, num_waiting_reqs=waiting, **fields)


def test_requests_and_rates_are_summed_and_usage_is_averaged_over_ranks():
    ranks = (
        rank(1, 2, num_waiting_uncached_tokens=100, token_usage=0.25, gen_throughput=10.0, max_running_requests=8),
        rank(3, 4, num_waiting_uncached_tokens=50, token_usage=0.75, gen_throughput=20.0, max_running_requests=8),
    )
    report = report_of(ranks, 1700.0)
    assert report == LoadReport(
        waiting_requests=6,
        waiting_uncached_tokens=150,
        token_usage=0.5,
        throughput_tokens_per_sec=30.0,
        max_running_requests=16,
        received_at=1700.0,
        ranks=ranks,
    )


def test_what_no_rank_reports_is_unknown():
    report = report_of([rank(1, 2)], 0.0)
    assert report.waiting_uncached_tokens is None
    assert report.token_usage is None
    assert report.throughput_tokens_per_sec is None
    assert report.max_running_requests is None


def test_a_sum_of_which_a_part_is_unknown_is_unknown_and_a_mean_is_over_those_who_report():
    report = report_of(
        [rank(num_waiting_uncached_tokens=5, token_usage=0.5, max_running_requests=8), rank(max_running_requests=0)],
        0.0,
    )
    assert report.waiting_uncached_tokens is None
    assert report.max_running_requests is None
    assert report.token_usage == 0.5


def test_equal_usages_average_to_exactly_that():
    for count in range(1, 65):
        assert report_of([rank(token_usage=0.9)] * count, 0.0).token_usage == 0.9


def test_workers_are_protected_by_the_gateway_s_thresholds_if_that_is_on():
    assert thresholds_of(worker(), ON) == Thresholds(4, 0.9)
    assert thresholds_of(worker(), OFF) is None
    assert OverloadOptions().thresholds is DEFAULT_THRESHOLDS == Thresholds(8, 0.8)


@pytest.mark.parametrize("options", [ON, OFF])
def test_a_worker_s_own_thresholds_protect_it_and_complete_the_gateway_s(options):
    assert thresholds_of(worker(waiting_requests=1), options) == Thresholds(1, 0.9)
    assert thresholds_of(worker(token_usage=0.5), options) == Thresholds(4, 0.5)
    assert thresholds_of(worker(waiting_requests=1, token_usage=0.5), options) == Thresholds(1, 0.5)


def test_a_worker_without_a_spec_follows_the_gateway():
    bare = Worker("a", "http://a", "http://a", Breaker(BreakerOptions()))
    assert thresholds_of(bare, ON) == ON.thresholds
    assert thresholds_of(bare, OFF) is None


@pytest.mark.parametrize(
    ("waiting", "usage", "overloaded"),
    [(3, 0.89, False), (4, 0.0, True), (0, 0.9, True), (5, 1.0, True), (3, None, False), (4, None, True)],
)
def test_a_worker_is_overloaded_at_either_threshold(waiting, usage, overloaded):
    assert is_overloaded(LoadReport(waiting_requests=waiting, token_usage=usage), Thresholds(4, 0.9)) is overloaded


def test_the_policies_that_read_reports_are_policies():
    assert set(POLICIES) >= READ_REPORTS
