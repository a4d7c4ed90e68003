from hypothesis import given
from hypothesis import strategies as st

from smg.telemetry.instruments import SUMMARY_WINDOW, Counter, Gauge, Histogram, Summary

BOUNDS = (0.1, 1, 10)
seconds = st.floats(min_value=0, max_value=20, allow_nan=False)


def test_a_counter_adds_up_and_is_recorded_from_its_first_count() -> None:
    counter = Counter()
    assert not counter.recorded
    counter.inc()
    counter.inc(4)
    assert (counter.value, counter.recorded) == (5, True)


def test_a_gauge_goes_up_and_down() -> None:
    gauge = Gauge()
    gauge.set(10)
    gauge.inc(3)
    gauge.dec()
    assert gauge.value == 12


def test_a_gauge_that_was_set_to_zero_has_something_to_show() -> None:
    gauge = Gauge()
    assert not gauge.recorded
    gauge.set(0)
    assert gauge.recorded


def test_a_gauge_is_recorded_by_its_first_step_in_either_direction() -> None:
    up, down = Gauge(), Gauge()
    up.inc()
    down.dec()
    assert up.recorded
    assert down.recorded


def test_an_observation_equal_to_a_bound_belongs_below_it() -> None:
    histogram = Histogram(BOUNDS)
    for value in (0.1, 0.11, 1, 10, 10.01):
        histogram.observe(value)
    assert histogram.counts == [1, 2, 1, 1]


@given(st.lists(seconds))
def test_a_histogram_counts_what_a_naive_one_counts(values: list[float]) -> None:
    histogram = Histogram(BOUNDS)
    for value in values:
        histogram.observe(value)
    below = [sum(value <= bound for value in values) for bound in (*BOUNDS, float("inf"))]
    assert [sum(histogram.counts[: index + 1]) for index in range(len(below))] == below
    assert histogram.sum == sum(values)
    assert histogram.recorded == bool(values)


def test_a_summary_gives_the_smallest_the_middle_and_the_largest_value() -> None:
    summary = Summary()
    for value in (5, 1, 4, 2, 3):
        summary.observe(value)
    assert summary.quantiles((0, 0.5, 1)) == [1, 3, 5]
    assert (summary.count, summary.sum) == (5, 15)


def test_an_empty_summary_has_no_quantiles_and_nothing_to_show() -> None:
    summary = Summary()
    assert summary.quantiles((0, 1)) == []
    assert not summary.recorded


def test_a_summary_forgets_old_values_in_its_quantiles_but_not_in_its_total() -> None:
    summary = Summary()
    summary.observe(1000)
    for _ in range(SUMMARY_WINDOW):
        summary.observe(1)
    assert summary.quantiles((1,)) == [1]
    assert (summary.count, summary.sum) == (SUMMARY_WINDOW + 1, SUMMARY_WINDOW + 1000)
