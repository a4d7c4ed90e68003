from bench.selection import Row, figures


def test_a_policy_is_judged_by_its_most_expensive_row_and_growth_by_any() -> None:
    costs = [
        (Row("a", "short"), (1.0, 2.0, 4.0)),
        (Row("a", "long"), (3.0, 3.0, 9.0)),
        (Row("b", "-"), (1.0, 1.0, 2.0)),
    ]
    assert figures(costs) == {"a_us": 9.0, "growth": 4.0, "b_us": 2.0}


def test_a_row_with_a_name_has_a_figure_of_its_own() -> None:
    costs = [(Row("a", "plain"), (1.0, 2.0)), (Row("a", "capped", name="a_capped"), (1.0, 5.0))]
    assert figures(costs) == {"a_us": 2.0, "a_capped_us": 5.0, "growth": 5.0}
