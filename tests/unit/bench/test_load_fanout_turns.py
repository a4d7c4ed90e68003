import pytest
from bench.load_fanout_turns import check_report


def test_a_report_in_which_everybody_did_well_is_good() -> None:
    check_report({"total": 2, "succeeded": 2})


@pytest.mark.parametrize("report", [{"total": 2, "succeeded": 1}, {"total": 0, "succeeded": 0}])
def test_a_fan_out_that_missed_an_engine_is_no_measure(report: dict[str, int]) -> None:
    with pytest.raises(RuntimeError):
        check_report(report)
