from collections import Counter

import pytest

from smg.fleet.hints import NO_HINTS, Hints
from smg.fleet.policies.bucket import Bucket, BucketOptions
from smg.fleet.structures.length_ranges import SPAN

LAX = BucketOptions(balance_abs_threshold=10**9)


def ask(policy, workers, length):
    return policy.select(workers, Hints(text="x" * length))


def test_prompts_of_one_length_go_to_one_worker(bench, fleet):
    policy, workers = Bucket(bench.context(), LAX), fleet(0, 0, 0, 0)
    quarter = SPAN // 4
    for number, worker in enumerate(workers):
        lengths = (number * quarter + 1, number * quarter + quarter // 2, (number + 1) * quarter)
        assert {ask(policy, workers, length) for length in lengths} == {worker}
    assert ask(policy, workers, 100 * SPAN) is workers[-1]


def test_the_length_is_that_of_the_tokens_where_they_are_known(bench, fleet):
    policy, workers = Bucket(bench.context(), LAX), fleet(0, 0)
    assert policy.select(workers, Hints(text="x", tokens=list(range(SPAN)))) is workers[1]
    assert policy.select(workers, Hints(text="x" * SPAN, tokens=[1, 2])) is workers[0]
    assert policy.select(workers, Hints(text="x" * SPAN, tokens=[])) is workers[1]


def test_a_request_that_shows_no_length_goes_to_the_least_busy_and_counts_like_the_others(bench, fleet):
    policy, workers = Bucket(bench.context(), LAX), fleet(0, 0, 0)
    for worker, length in zip(workers, (30, 10, 20), strict=True):
        policy.select((worker,), Hints(text="x" * length))
    # 10, 20 and 30 make 20 a request: the second has as much as the first after one, the third after that.
    assert policy.select(workers, NO_HINTS) is workers[1]
    assert policy.select(workers, NO_HINTS) is workers[2]
    assert Counter(policy.select(workers, NO_HINTS).id for _ in range(300)).keys() == {"0", "1", "2"}


def test_ranges_follow_the_traffic(bench, fleet):
    policy, workers = Bucket(bench.context(), LAX), fleet(0, 0)
    for _ in range(2):
        for length in [10] * 100 + [1000]:
            assert ask(policy, workers, length) is workers[0]
        bench.now += 4
    assert ask(policy, workers, 10) is workers[0]
    assert ask(policy, workers, 1000) is workers[1]


@pytest.mark.parametrize(("interval_secs", "moves"), [(5, True), (60, False)])
def test_how_often_ranges_are_looked_at_is_an_option(bench, fleet, interval_secs, moves):
    options = BucketOptions(bucket_adjust_interval_secs=interval_secs, balance_abs_threshold=10**9)
    policy, workers = Bucket(bench.context(), options), fleet(0, 0)
    for _ in range(20):
        bench.now += 1
        for length in (10, 10, 20):
            ask(policy, workers, length)
    assert (ask(policy, workers, 20) is workers[1]) == moves


@pytest.mark.parametrize(
    ("absolute", "relative", "moves"), [(99, 1.5, True), (100, 1.5, False), (99, 2.9, True), (99, 3.0, False)]
)
def test_uneven_work_goes_to_whoever_had_the_least_of_it(bench, fleet, absolute, relative, moves):
    # After these two the one has had 150 characters, the other 50: a difference of 100, a factor of 3.
    options = BucketOptions(balance_abs_threshold=absolute, balance_rel_threshold=relative)
    policy, workers = Bucket(bench.context(), options), fleet(0, 0)
    policy.select(workers[:1], Hints(text="x" * 150))
    policy.select(workers[1:], Hints(text="x" * 50))
    assert (ask(policy, workers, 1) is workers[1]) == moves


def test_work_is_forgotten_with_time(bench, fleet):
    policy, workers = Bucket(bench.context()), fleet(0, 0)
    ask(policy, workers, 1000)
    assert ask(policy, workers, 1) is workers[1]
    bench.now = 5
    assert ask(policy, workers, 1) is workers[0]


def test_alike_prompts_do_not_pile_up_on_the_owner_of_their_length(bench, fleet):
    policy, workers = Bucket(bench.context()), fleet(0, 0, 0, 0)
    taken = Counter(ask(policy, workers, 500).id for _ in range(400))
    assert min(taken.values()) > 80


def test_while_the_owner_is_out_the_least_busy_one_serves_its_range(bench, fleet):
    policy, workers = Bucket(bench.context(), LAX), fleet(0, 0, 0)
    ask(policy, workers, SPAN // 2)
    assert ask(policy, workers, SPAN) is workers[2]
    assert ask(policy, workers[:2], SPAN) is workers[0]
    assert ask(policy, workers, SPAN) is workers[2]


def test_a_worker_that_joins_gets_a_range(bench, fleet):
    policy, workers = Bucket(bench.context(), LAX), fleet(0, 0)
    assert ask(policy, workers[:1], 1) is workers[0]
    assert ask(policy, workers, 10 * SPAN) is workers[1]
    assert policy.sizes() == {"ranges": 2, "samples": 2}


def test_a_removed_worker_is_purged(bench, fleet):
    policy, workers = Bucket(bench.context()), fleet(0, 0)
    ask(policy, workers, 10)
    for worker in workers:
        policy.forget(worker.url)
    assert policy.sizes() == {"ranges": 0, "samples": 0}
    assert ask(policy, workers[1:], 10) is workers[1]


def test_a_sweep_lets_go_of_old_requests(bench, fleet):
    policy, workers = Bucket(bench.context()), fleet(0, 0)
    ask(policy, workers, 10)
    policy.sweep(100.0)
    assert policy.sizes() == {"ranges": 2, "samples": 0}
