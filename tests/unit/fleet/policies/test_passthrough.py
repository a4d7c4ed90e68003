from smg.fleet.hints import NO_HINTS
from smg.fleet.policies.passthrough import Passthrough


def test_the_first_candidate_is_taken_whatever_its_load(bench, fleet):
    policy, workers = Passthrough(bench.context()), fleet(90, 0)
    assert [policy.select(workers, NO_HINTS) for _ in range(3)] == [workers[0]] * 3
    assert policy.select(workers[1:], NO_HINTS) is workers[1]


def test_idle_workers_are_warned_of_once(bench, fleet):
    policy = Passthrough(bench.context())
    policy.select(fleet(0), NO_HINTS)
    assert bench.warnings == []
    for _ in range(3):
        policy.select(fleet(0, 0), NO_HINTS)
    assert len(bench.warnings) == 1
    assert "passthrough" in bench.warnings[0]
