import pytest
from bench.stats import Spread, Target, pair_ratios, percentile, quarter_growth


def test_a_ratio_belongs_to_one_pair_of_runs() -> None:
    assert pair_ratios([20.0, 30.0], [10.0, 10.0]) == [2.0, 3.0]


def test_sides_with_different_numbers_of_runs_are_not_paired() -> None:
    with pytest.raises(ValueError, match="shorter"):
        pair_ratios([1.0, 2.0], [1.0])


def test_a_spread_is_the_median_between_the_extremes() -> None:
    assert Spread.of([9.0, 1.0, 2.0]) == Spread(median=2.0, low=1.0, high=9.0)


@pytest.mark.parametrize(("rank", "value"), [(50, 51), (99, 100), (100, 100), (0, 1)])
def test_a_percentile_is_a_value_that_was_measured(rank: int, value: int) -> None:
    assert percentile(range(1, 101), rank) == value


def test_growth_compares_the_last_quarter_with_the_first() -> None:
    assert quarter_growth([10, 10, 99, 0, 50, 50, 30, 30]) == 20


def test_growth_of_a_single_sample_is_zero() -> None:
    assert quarter_growth([7]) == 0


@pytest.mark.parametrize(
    ("target", "value", "met"),
    [
        (Target(">=", 2.5), 2.5, True),
        (Target(">=", 2.5), 2.49, False),
        (Target("<=", 0.7), 0.7, True),
        (Target("<=", 0.7), 0.71, False),
    ],
)
def test_a_target_is_met_up_to_and_with_its_bound(target: Target, value: float, met: bool) -> None:
    assert target.met_by(value) is met
