import logging

import pytest

from smg.telemetry.log_filter import OFF, TRACE, LogFilter, level_name, target_name


def test_a_level_is_for_our_own_targets_and_the_rest_needs_a_warning() -> None:
    wanted = LogFilter.for_level("debug")
    assert wanted.threshold("smg.fleet") == logging.DEBUG
    assert wanted.threshold("smg_rl") == logging.DEBUG
    assert wanted.threshold("asyncio") == logging.WARNING
    assert wanted.lowest == logging.DEBUG


def test_directives_replace_the_default_and_select_targets() -> None:
    wanted = LogFilter.parse("warn,smg_rl=info")
    assert wanted.threshold("smg_rl") == logging.INFO
    assert wanted.threshold("smg.fleet") == logging.WARNING
    assert wanted.lowest == logging.INFO


def test_the_longest_prefix_decides_in_any_order() -> None:
    wanted = LogFilter.parse("smg::fleet=debug, smg=error ,smg::fleet::registry=off")
    assert wanted.threshold("smg.fleet.health") == logging.DEBUG
    assert wanted.threshold("smg.fleet.registry") == OFF
    assert wanted.threshold("smg.app") == logging.ERROR


def test_dots_and_colons_separate_alike() -> None:
    assert LogFilter.parse("smg.fleet=debug").threshold("smg::fleet") == logging.DEBUG


def test_a_target_without_a_level_passes_everything() -> None:
    assert LogFilter.parse("smg_rl").threshold("smg_rl") == TRACE


def test_without_a_bare_level_other_targets_pass_from_errors_up() -> None:
    assert LogFilter.parse("smg=info").threshold("asyncio") == logging.ERROR


def test_levels_are_read_in_any_case() -> None:
    assert LogFilter.parse("WARN,smg=Info") == LogFilter(logging.WARNING, (("smg", logging.INFO),))


def test_off_lets_nothing_pass() -> None:
    assert LogFilter.parse("off").lowest > logging.CRITICAL


@pytest.mark.parametrize("text", ["smg=loud", "=info", "smg[span]=info", "a b=info", "smg=info=debug"])
def test_what_is_no_directive_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="directive"):
        LogFilter.parse(text)


@pytest.mark.parametrize(
    ("level", "name"),
    [(5, "TRACE"), (10, "DEBUG"), (20, "INFO"), (25, "INFO"), (30, "WARN"), (40, "ERROR"), (50, "ERROR")],
)
def test_levels_have_the_names_lines_use(level: int, name: str) -> None:
    assert level_name(level) == name


def test_a_target_is_spelled_with_colons() -> None:
    assert target_name("smg.fleet.health") == "smg::fleet::health"
