import pytest

from smg.control.rl.accounts import OPERATIONS
from smg.control.rl.answers import Answered, Failed, Report, answered
from smg.control.rl.refusals import Refusal


@pytest.fixture
def outcomes(make_worker, captured):
    return {
        "good": answered(make_worker("a"), captured(), 1),
        "bad": answered(make_worker("b"), captured(500), 1),
        "none": Failed(make_worker("c"), Refusal("upstream_timeout", "why")),
    }


@pytest.mark.parametrize("path", sorted(OPERATIONS))
def test_a_known_operation_counts_by_its_name(plane, path):
    plane.accounts.called(path, "ok", 0.1)
    assert plane.samples(plane.metrics.rl_control_calls) == {(path, "ok"): 1}
    assert plane.observed(plane.metrics.rl_control_call_duration_seconds) == {(path,): 1}


def test_all_other_paths_are_one_label_value(plane):
    for path in ("v1/pause", "Pause", "pause/now", "update_weights", "other"):
        plane.accounts.called(path, "ok", 0.1)
    assert plane.samples(plane.metrics.rl_control_calls) == {("other", "ok"): 5}


@pytest.mark.parametrize(
    ("names", "result"), [(["good"], "ok"), (["good", "bad"], "partial"), (["none"], "partial"), (["bad"], "partial")]
)
def test_a_fan_out_counts_by_what_came_of_it(plane, outcomes, names, result):
    plane.accounts.fanned_out("pause", "a=b", Report([outcomes[name] for name in names]), 0.5)
    assert plane.samples(plane.metrics.rl_fanout) == {(result,): 1}
    assert plane.observed(plane.metrics.rl_fanout_duration_seconds) == {(): 1}


def test_one_that_found_nobody_counts_as_well(plane):
    plane.accounts.nobody_matched(0.5)
    assert plane.samples(plane.metrics.rl_fanout) == {("no_match",): 1}
    assert plane.observed(plane.metrics.rl_fanout_duration_seconds) == {(): 1}


def events(caplog):
    return [(record.name, record.levelname, record.message, record.fields) for record in caplog.records]


def test_an_answer_is_logged(plane, caplog, make_worker):
    caplog.set_level("INFO")
    plane.accounts.called_for("GET", "v1/op", [Answered(make_worker(), 503, 12, b"{}")])
    fields = {
        "worker_id": "a",
        "url": "http://a",
        "method": "GET",
        "path": "v1/op",
        "status": 503,
        "latency_ms": 12,
    }
    assert events(caplog) == [("smg_rl", "INFO", "rl.proxy", fields)]


def test_a_fan_out_is_logged_with_its_counts(plane, caplog, outcomes):
    caplog.set_level("INFO")
    plane.accounts.fanned_out("pause", "a=b", Report(list(outcomes.values())), 0.5)
    fields = {"path": "pause", "selector": "a=b", "total": 3, "succeeded": 1, "failed": 2, "latency_ms": 500}
    assert events(caplog) == [("smg_rl", "INFO", "rl.fanout", fields)]


def test_one_that_found_nobody_is_not_logged(plane, caplog):
    caplog.set_level("INFO")
    plane.accounts.nobody_matched(0.5)
    assert caplog.records == []
