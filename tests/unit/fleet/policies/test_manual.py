from collections import Counter

import pytest

from smg.fleet.hints import NO_HINTS, Hints
from smg.fleet.policies.manual import Manual, ManualOptions


def ask(policy, workers, key):
    return policy.select(workers, Hints(routing_key=key))


def without(workers, *gone):
    return tuple(worker for worker in workers if worker not in gone)


def test_a_key_stays_where_it_first_went(bench, fleet):
    policy, workers = Manual(bench.context()), fleet(0, 0, 0)
    first = {key: ask(policy, workers, str(key)) for key in range(60)}
    assert set(first.values()) == set(workers)
    first[0].load = 1000
    assert {key: ask(policy, workers, str(key)) for key in range(60)} == first
    assert bench.branches == {"vacant": 60, "occupied_hit": 60}
    assert policy.sizes() == {"entries": 60}


def test_requests_without_a_key_are_placed_and_not_remembered(bench, fleet):
    policy, workers = Manual(bench.context()), fleet(0, 0, 0)
    assert {policy.select(workers, NO_HINTS) for _ in range(30)} == set(workers)
    assert policy.select(workers, Hints(routing_key="")) in workers
    assert bench.branches == {"no_routing_id": 31}
    assert policy.sizes() == {"entries": 0}


def test_a_key_has_one_substitute_and_goes_home_again(bench, fleet):
    policy, workers = Manual(bench.context()), fleet(0, 0, 0, 0, 0, 0)
    home = ask(policy, workers, "key")
    rest = without(workers, home)
    substitute = ask(policy, rest, "key")
    assert {ask(policy, rest, "key") for _ in range(20)} == {substitute}
    assert ask(policy, workers, "key") is home
    assert bench.branches == {"vacant": 1, "occupied_miss": 1, "occupied_hit": 21}


def test_the_oldest_home_is_dropped_for_a_third(bench, fleet):
    policy, workers = Manual(bench.context()), fleet(*[0] * 8)
    home = ask(policy, workers, "key")
    substitute = ask(policy, without(workers, home), "key")
    third = ask(policy, without(workers, home, substitute), "key")
    assert ask(policy, workers, "key") is substitute
    assert ask(policy, without(workers, substitute), "key") is third


@pytest.mark.parametrize("mode", ["min_load", "delegate"])
def test_new_keys_may_go_to_the_fewest_requests(bench, fleet, mode):
    policy, workers = Manual(bench.context(), ManualOptions(mode)), fleet(3, 1, 2)
    assert {ask(policy, workers, str(key)) for key in range(10)} == {workers[1]}


def test_new_keys_may_go_to_the_fewest_keys(bench, fleet):
    policy, workers = Manual(bench.context(), ManualOptions("min_group")), fleet(90, 0, 0)
    placed = Counter(ask(policy, workers, str(key)).id for key in range(30))
    assert placed == {"0": 10, "1": 10, "2": 10}


def test_idle_keys_are_dropped_by_the_sweep(bench, fleet):
    policy, workers = Manual(bench.context(), ManualOptions(max_idle_secs=100)), fleet(0, 0)
    ask(policy, workers, "old")
    bench.now = 60
    ask(policy, workers, "young")
    policy.sweep(110)
    assert policy.sizes() == {"entries": 1}


@pytest.mark.parametrize("options", [{"max_idle_secs": 0}, {"eviction_interval_secs": 0}])
def test_either_time_of_zero_keeps_idle_keys(bench, fleet, options):
    policy, workers = Manual(bench.context(), ManualOptions(**options)), fleet(0, 0)
    ask(policy, workers, "key")
    policy.sweep(1e9)
    assert policy.sizes() == {"entries": 1}


def test_a_removed_worker_does_not_reclaim_its_keys_when_it_returns(bench, fleet):
    policy, workers = Manual(bench.context()), fleet(*[0] * 6)
    home = ask(policy, workers, "key")
    policy.forget(home.url)
    other = ask(policy, without(workers, home), "key")
    assert {ask(policy, workers, "key") for _ in range(20)} == {other}
