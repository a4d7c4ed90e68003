from bench.race import Outcome
from bench.stats import Spread, Target
from bench.workloads import WORKLOADS, Measure, Workload

RATE = Measure("rps", "rate", "req/s", Target(">=", 2.0))
START = Measure("secs", "start", "s", Target("<=", 1.0, of_ours=True))


def outcome(**figures: list[dict[str, float]]) -> Outcome:
    workload = Workload("w", "a workload", lambda _stage, _gateway, _workers: {}, (RATE, START))
    return Outcome(workload, figures)


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
