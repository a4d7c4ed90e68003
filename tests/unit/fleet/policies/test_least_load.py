from collections import Counter

import pytest

from smg.fleet.hints import NO_HINTS
from smg.fleet.policies.least_load import LeastLoad, LeastLoadOptions
from smg.fleet.worker import LoadReport


def capped(bench, cap):
    return LeastLoad(bench.context(), LeastLoadOptions(least_load_max_waiting_requests=cap))


def test_the_lowest_expected_wait_is_taken(bench, fleet):
    workers = fleet(0, 9, 0)
    for worker, waiting in zip(workers, (4, 1, 2), strict=True):
        worker.report = LoadReport(waiting_requests=waiting)
    assert LeastLoad(bench.context()).select(workers, NO_HINTS) is workers[1]


def test_dispatched_tokens_count_until_the_next_report(bench, fleet):
    policy, workers = LeastLoad(bench.context()), fleet(0, 0, 0)
    for worker in workers:
        worker.report = LoadReport()
    taken = Counter()
    for _ in range(12):
        chosen = policy.select(workers, NO_HINTS)
        chosen.dispatched_tokens += 1024
        taken[chosen.id] += 1
    assert taken == {"0": 4, "1": 4, "2": 4}


@pytest.mark.parametrize(
    ("options", "loser"),
    [
        (LeastLoadOptions(), 0),
        (LeastLoadOptions(least_load_kv_pressure_weight=0.0), 1),
        (LeastLoadOptions(least_load_default_throughput=20.0), 1),
        (LeastLoadOptions(least_load_mean_prefill_tokens=100_000), 1),
    ],
)
def test_the_flags_tune_the_formula(bench, fleet, options, loser):
    workers = fleet(0, 0)
    workers[0].report = LoadReport(token_usage=0.9)
    workers[1].report = LoadReport(waiting_requests=1)
    assert LeastLoad(bench.context(), options).select(workers, NO_HINTS) is not workers[loser]


def test_workers_at_the_cap_are_skipped(bench, fleet):
    policy, workers = capped(bench, 4), fleet(0, 0)
    workers[0].report = LoadReport(waiting_requests=4, waiting_uncached_tokens=0)
    workers[1].report = LoadReport(waiting_requests=3, waiting_uncached_tokens=10_000_000)
    assert policy.select(workers, NO_HINTS) is workers[1]


def test_what_was_sent_since_the_report_counts_as_waiting(bench, fleet):
    policy, workers = capped(bench, 3), fleet(0)
    workers[0].report = LoadReport(waiting_requests=1)
    assert [policy.select(workers, NO_HINTS) for _ in range(3)] == [workers[0], workers[0], None]
    workers[0].report = LoadReport(waiting_requests=2)
    assert [policy.select(workers, NO_HINTS) for _ in range(2)] == [workers[0], None]


def test_silent_workers_are_never_capped(bench, fleet):
    policy, workers = capped(bench, 1), fleet(0, 30)
    workers[0].report = LoadReport(waiting_requests=1)
    assert [policy.select(workers, NO_HINTS) for _ in range(5)] == [workers[1]] * 5
    assert policy.sizes() == {"counted": 0}


def test_a_worker_that_returns_is_counted_anew(bench, fleet):
    policy, workers = capped(bench, 2), fleet(0)
    workers[0].report = LoadReport()
    policy.select(workers, NO_HINTS)
    assert policy.sizes() == {"counted": 1}
    policy.forget(workers[0].url)
    assert policy.sizes() == {"counted": 0}
