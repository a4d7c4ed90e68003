from pathlib import Path

import pytest
from bench.gateways import Side
from bench.processes import ChildFailedError, Children
from bench.race import Outcome, race
from bench.stage import Settings, Stage
from bench.stats import Spread, Target
from bench.workloads import WORKLOADS, Measure, Rival, Workload

RATE = Measure("rps", "rate", "req/s", Target(">=", 2.0))
START = Measure("secs", "start", "s", Target("<=", 1.0, of_ours=True))


def outcome(**figures: list[dict[str, float]]) -> Outcome:
    workload = Workload("w", "a workload", lambda _stage, _side, _flags, _fleet: {}, (RATE, START))
    return Outcome(workload, figures)


OURS, PUBLISHED = Side("ours", "1", (), {}), Side("published", "2", (), {})


def raced(sides: list[Side], run=None, pairs: int = 2, **fields) -> tuple[Outcome, list[tuple[str, tuple[str, ...]]]]:
    """A race of runs that only note whose turn it was."""
    turns = []

    def noted(_stage, side, flags, _fleet):
        turns.append((side.name, flags))
        return {"rps": 1.0}

    settings = Settings(Path(), Path(), seconds=1, pairs=pairs, gateway_core=0, load_core=1)
    workload = Workload("w", "a workload", run or noted, (RATE,), **fields)
    return race(Stage(settings, Children()), workload, sides, lambda *_: None), turns


def test_the_verdict_speaks_of_the_median_of_the_ratios_and_not_of_the_ratio_of_the_medians() -> None:
    # Pairs 3.0, 1.0, 2.5; the medians of the sides would say 30 / 20.
    both = outcome(ours=[{"rps": 30}, {"rps": 20}, {"rps": 100}], published=[{"rps": 10}, {"rps": 20}, {"rps": 40}])
    assert both.ratio(RATE) == Spread(2.5, 1.0, 3.0)
    assert both.verdict(RATE) is True


def test_an_unfinished_pair_is_left_out() -> None:
    half = outcome(ours=[{"rps": 30}, {"rps": 1}], published=[{"rps": 10}])
    assert half.ratio(RATE) == Spread(3.0, 3.0, 3.0)


def test_one_side_alone_has_neither_ratio_nor_verdict() -> None:
    alone = outcome(ours=[{"rps": 30}])
    assert alone.ratio(RATE) is None
    assert alone.verdict(RATE) is None


def test_a_target_of_our_own_needs_no_opponent() -> None:
    assert outcome(ours=[{"secs": 0.4}]).verdict(START) is True
    assert outcome(ours=[{"secs": 1.4}]).verdict(START) is False


@pytest.mark.parametrize(("ours", "met"), [(9.0, False), (10.0, True)])
def test_a_figure_of_our_own_that_is_enough_wins_over_a_ratio_that_is_not(ours: float, met: bool) -> None:
    enough = Measure("rps", "rate", "req/s", Target(">=", 2.0, or_ours=10.0))
    assert outcome(ours=[{"rps": ours}], published=[{"rps": 99.0}]).verdict(enough) is met
    assert outcome(ours=[{"rps": ours}]).verdict(enough) is (True if met else None)


def test_a_load_side_without_reserve_is_named_unless_the_gateway_was_full_too() -> None:
    run = {"load_core_busy": 0.99, "gateway_core_busy": 0.6}
    full = {"load_core_busy": 0.99, "gateway_core_busy": 1.0}
    assert outcome(ours=[run], published=[full]).load_side_limited() == ["ours"]


def test_what_others_took_is_the_worst_share_of_either_core() -> None:
    shares = {"gateway_busy": 0.6, "gateway_core_busy": 0.625, "load_side_busy": 0.25, "load_core_busy": 0.75}
    assert outcome(ours=[shares, {"rps": 1.0}]).others_busy() == 0.5


def test_every_workload_has_a_name_of_its_own() -> None:
    names = [workload.name for workload in WORKLOADS]
    assert len(names) == len(set(names))


def test_sides_take_turns_with_the_same_flags() -> None:
    _, turns = raced([OURS, PUBLISHED], flags=("--x",))
    assert turns == [("ours", ("--x",)), ("published", ("--x",))] * 2


def test_a_rival_is_our_own_gateway_with_other_flags() -> None:
    outcome, turns = raced([OURS, PUBLISHED], pairs=1, flags=("--x",), rival=Rival("other", ("--y",)))
    assert turns == [("ours", ("--x",)), ("other", ("--y",))]
    assert outcome.ratio(RATE) == Spread(1.0, 1.0, 1.0)


def test_short_runs_are_repeated_more_often_and_long_ones_less() -> None:
    assert len(raced([OURS], pairs=2, pairs_times=3)[1]) == 6
    assert len(raced([OURS], pairs=2, pairs_times=3, most_pairs=4)[1]) == 4


def test_a_workload_of_our_own_spares_the_published_gateway() -> None:
    _, turns = raced([OURS, PUBLISHED], ours_only=True, most_pairs=1)
    assert turns == [("ours", ())]


def test_a_run_that_fails_ends_its_workload_and_is_told() -> None:
    def fail(*_):
        raise ChildFailedError("no answer")

    outcome, _ = raced([OURS, PUBLISHED], fail)
    assert outcome.failure == "ours: no answer"
    assert outcome.verdict(RATE) is None
