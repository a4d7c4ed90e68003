from collections import Counter

from smg.fleet.hints import NO_HINTS
from smg.fleet.policies.round_robin import MAX_LISTS, RoundRobin


def take(policy, workers, count):
    return [policy.select(workers, NO_HINTS) for _ in range(count)]


def test_workers_take_turns_in_their_order(bench, fleet):
    policy, workers = RoundRobin(bench.context()), fleet(0, 0, 0)
    order = take(policy, workers, 9)
    start = workers.index(order[0])
    assert order == [workers[(start + n) % 3] for n in range(9)]


def test_lists_of_candidates_do_not_disturb_each_other(bench, fleet):
    policy, workers = RoundRobin(bench.context()), fleet(0, 0, 0)
    seen = []
    for _ in range(6):
        seen += take(policy, workers, 1)
        take(policy, workers[1:], 1)
    assert seen[:3] == seen[3:]
    assert set(seen) == set(workers)


def test_a_list_and_a_tuple_of_the_same_workers_share_turns(bench, fleet):
    policy, workers = RoundRobin(bench.context()), fleet(0, 0)
    assert {*take(policy, workers, 1), *take(policy, list(workers), 1)} == set(workers)


def test_first_turns_do_not_favour_the_first_worker(bench, fleet):
    policy, lists = RoundRobin(bench.context()), [fleet(0, 0, 0) for _ in range(300)]
    starts = Counter(policy.select(workers, NO_HINTS).id for workers in lists)
    assert all(starts[name] > 60 for name in "012")


def test_only_the_lists_used_last_keep_their_turn(bench, fleet):
    policy, kept = RoundRobin(bench.context()), fleet(0, 0)
    first = policy.select(kept, NO_HINTS)
    others = [fleet(0) for _ in range(MAX_LISTS + 50)]
    for position, workers in enumerate(others):
        policy.select(workers, NO_HINTS)
        if position == MAX_LISTS // 2:
            assert policy.select(kept, NO_HINTS) is not first
    assert policy.sizes() == {"lists": MAX_LISTS}
    assert policy.select(kept, NO_HINTS) is first


def test_a_removal_clears_all_turns(bench, fleet):
    policy, workers = RoundRobin(bench.context()), fleet(0, 0)
    policy.select(workers, NO_HINTS)
    policy.forget(workers[0].url)
    assert policy.sizes() == {"lists": 0}
