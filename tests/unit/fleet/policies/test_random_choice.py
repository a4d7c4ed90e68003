from collections import Counter

from smg.fleet.hints import NO_HINTS
from smg.fleet.policies.random_choice import RandomChoice


def test_every_worker_has_the_same_chance_whatever_its_load(bench, fleet):
    policy, workers = RandomChoice(bench.context()), fleet(0, 50, 900)
    drawn = Counter(policy.select(workers, NO_HINTS).id for _ in range(3000))
    assert set(drawn) == {"0", "1", "2"}
    assert all(abs(count - 1000) < 120 for count in drawn.values())
