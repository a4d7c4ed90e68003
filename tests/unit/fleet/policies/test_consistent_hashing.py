import pytest

from smg.fleet.hints import NO_HINTS, Hints
from smg.fleet.policies.consistent_hashing import ConsistentHashing


def test_the_target_index_wins_over_everything(bench, fleet):
    policy, workers = ConsistentHashing(bench.context()), fleet(0, 0, 0)
    for index in range(3):
        hints = Hints(target=str(index), routing_key="key", identity="10.0.0.1")
        assert policy.select(workers, hints) is workers[index]
    assert bench.branches == {"target_worker_hit": 3}


@pytest.mark.parametrize("target", ["3", "99", "-1", "first", "", " 1", "+1", "1.0", "\u0661", "9" * 5000])
def test_a_target_that_names_nobody_selects_nobody(bench, fleet, target):
    policy = ConsistentHashing(bench.context())
    assert policy.select(fleet(0, 0, 0), Hints(target=target, routing_key="key")) is None
    assert bench.branches == {"target_worker_miss": 1}


def test_the_routing_key_wins_over_the_identity(bench, fleet):
    policy, workers = ConsistentHashing(bench.context()), fleet(*[0] * 8)
    home = policy.select(workers, Hints(routing_key="key"))
    homes = {policy.select(workers, Hints(routing_key="key", identity=f"10.0.0.{n}")) for n in range(30)}
    assert homes == {home}
    assert bench.branches == {"routing_key_hit": 31}


def test_an_identity_sticks_too(bench, fleet):
    policy, workers = ConsistentHashing(bench.context()), fleet(*[0] * 8)
    homes = [policy.select(workers, Hints(identity=f"10.0.0.{n}")) for n in range(40)]
    assert homes == [policy.select(workers, Hints(identity=f"10.0.0.{n}")) for n in range(40)]
    assert len(set(homes)) > 4


def test_a_request_without_any_key_goes_anywhere(bench, fleet):
    policy, workers = ConsistentHashing(bench.context()), fleet(0, 0, 0)
    assert {policy.select(workers, NO_HINTS) for _ in range(40)} == set(workers)
    assert bench.branches == {"random_fallback": 40}


def test_keys_of_any_characters_are_hashed(bench, fleet):
    policy, workers = ConsistentHashing(bench.context()), fleet(0, 0)
    for key in ("ключ", "\udcff", "k" * 10_000):
        assert policy.select(workers, Hints(routing_key=key)) in workers


def test_a_removed_worker_leaves_the_ring(bench, fleet):
    policy, workers = ConsistentHashing(bench.context()), fleet(0, 0)
    policy.select(workers, Hints(routing_key="key"))
    policy.forget(workers[0].url)
    assert policy.select(workers[1:], Hints(routing_key="key")) is workers[1]
    assert workers[0].url not in policy._ring._ring
