from pathlib import Path

import pytest
from bench import report
from bench.race import Outcome
from bench.stats import Target
from bench.workloads import WORKLOADS, Measure, Rival, Workload

MEMORY = Measure("rss_kb", "idle", "KB", Target("<=", 1.0))


def no_run(_stage, _side, _flags, _fleet):
    return {}


def outcome(failure: str = "") -> Outcome:
    workload = Workload("memory", "resident memory", no_run, (MEMORY,))
    figures = {"ours": [{"rss_kb": 2048.0}, {"rss_kb": 4096.0}], "published": [{"rss_kb": 4096.0}] * 2}
    return Outcome(workload, figures, failure)


def test_a_row_shows_both_sides_the_ratio_and_the_verdict() -> None:
    assert list(report.rows([outcome()])) == [
        ("resident memory", "idle", "3.0 MiB (2.0-4.0)", "4.0 MiB", "0.75 (0.50-1.00)", "≤ 1", "met")
    ]


def test_a_rival_of_our_own_is_named_next_to_its_figure() -> None:
    workload = Workload("w", "a workload", no_run, (MEMORY,), rival=Rival("round robin", ()))
    figures = {"ours": [{"rss_kb": 2048.0}], "round robin": [{"rss_kb": 4096.0}]}
    assert list(report.rows([Outcome(workload, figures)])) == [
        ("a workload", "idle", "2.0 MiB", "round robin: 4.0 MiB", "0.50 (0.50-0.50)", "≤ 1", "met")
    ]


def test_a_failed_workload_never_counts_as_met() -> None:
    assert [row[-1] for row in report.rows([outcome("published: refused")])] == ["failed"]


def test_a_failure_and_a_disturbed_core_are_noted() -> None:
    disturbed = outcome("published: refused")
    shares = {"gateway_busy": 0.6, "gateway_core_busy": 0.9, "load_side_busy": 0.5, "load_core_busy": 0.5}
    disturbed.figures["ours"][0].update(shares)
    assert list(report.notes([disturbed])) == [
        "resident memory: published: refused",
        "resident memory: other processes took up to 30% of a core",
    ]


def test_only_the_section_between_the_markers_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = "above\n<!-- race:begin -->\n{}\n<!-- race:end -->\nbelow\n<!-- other:begin -->\nkept\n<!-- other:end -->\n"
    page.write_text(text.format("old"))
    report.write_page(page, "race", "new")
    report.write_page(page, "race", "newer")
    assert page.read_text() == text.format("newer")


def test_a_page_without_markers_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("by hand")
    with pytest.raises(ValueError, match="no <!-- race:begin -->"):
        report.write_page(page, "race", "new")
    assert page.read_text() == "by hand"


def test_every_measure_of_the_table_can_be_shown() -> None:
    for workload in WORKLOADS:
        runs = [{measure.key: 1234.5 for measure in workload.measures}]
        shown = list(report.rows([Outcome(workload, {"ours": runs, "published": runs})]))
        assert len(shown) == len(workload.measures)


def test_a_bound_of_our_own_is_shown_in_full_and_in_its_unit() -> None:
    held = Measure("held", "held", "", Target("<=", 67_108_864, of_ours=True))
    memory = Measure("rss_kb", "memory", "KB", Target("<=", 512 * 1024, of_ours=True))
    outcome = Outcome(Workload("w", "w", no_run, (held, memory)), {"ours": [{"held": 1.0, "rss_kb": 1024.0}]})
    assert [row[5] for row in report.rows([outcome])] == ["ours ≤ 67,108,864", "ours ≤ 512 MiB"]


def test_a_figure_that_is_enough_is_shown_beside_the_ratio() -> None:
    rate = Measure("down_per_sec", "down", "B/s", Target(">=", 1.0, or_ours=1e9))
    assert report._target(rate) == "≥ 1, or ours ≥ 1,000 MB/s"
