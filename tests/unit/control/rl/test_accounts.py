import asyncio
from itertools import pairwise

import pytest

from smg.control.rl.accounts import LINES_A_TURN, OPERATIONS
from smg.control.rl.answers import Answered, Failed, Report, answered
from smg.control.rl.refusals import Refusal


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch):
    """No line waits longer than for its turn."""
    monkeypatch.setattr("smg.control.rl.accounts.LINES_WAIT_SECS", 0)


@pytest.fixture
def outcomes(make_worker, captured):
    return {
        "good": answered(make_worker("a"), captured(), 1),
        "bad": answered(make_worker("b"), captured(500), 2),
        "none": Failed(make_worker("c"), Refusal("upstream_timeout", "why"), 3),
        "gone": Failed(make_worker("d"), Refusal("upstream_unreachable", "why"), 4),
        "unasked": Failed(make_worker("e"), Refusal("unsupported_connection_mode", "why")),
    }


@pytest.mark.parametrize("path", sorted(OPERATIONS))
async def test_a_known_operation_counts_by_its_name(plane, outcomes, path):
    plane.accounts.called("POST", path, [outcomes["good"]])
    plane.accounts.flush()
    assert plane.samples(plane.metrics.rl_control_calls) == {(path, "ok"): 1}
    assert plane.observed(plane.metrics.rl_control_call_duration_seconds) == {(path,): 1}


async def test_all_other_paths_are_one_label_value(plane, outcomes):
    for path in ("v1/pause", "Pause", "pause/now", "update_weights", "other"):
        plane.accounts.called("POST", path, [outcomes["good"]])
    plane.accounts.flush()
    assert plane.samples(plane.metrics.rl_control_calls) == {("other", "ok"): 5}


async def test_a_call_counts_by_what_came_of_it_and_not_at_all_if_it_was_not_made(plane, outcomes):
    plane.accounts.called("POST", "pause", list(outcomes.values()))
    plane.accounts.flush()
    assert plane.samples(plane.metrics.rl_control_calls) == {
        ("pause", "ok"): 1,
        ("pause", "upstream_error"): 1,
        ("pause", "timeout"): 1,
        ("pause", "unreachable"): 1,
    }
    ((_, durations),) = plane.metrics.rl_control_call_duration_seconds.recorded()
    assert durations.sum == pytest.approx(1 + 2 + 3 + 4)


@pytest.mark.parametrize(
    ("names", "result"), [(["good"], "ok"), (["good", "bad"], "partial"), (["none"], "partial"), (["bad"], "partial")]
)
async def test_a_fan_out_counts_by_what_came_of_it(plane, outcomes, names, result):
    plane.accounts.fanned_out("pause", "a=b", Report([outcomes[name] for name in names]), 0.5)
    plane.accounts.flush()
    assert plane.samples(plane.metrics.rl_fanout) == {(result,): 1}
    assert plane.observed(plane.metrics.rl_fanout_duration_seconds) == {(): 1}


def test_one_that_found_nobody_counts_as_well(plane):
    plane.accounts.nobody_matched(0.5)
    assert plane.samples(plane.metrics.rl_fanout) == {("no_match",): 1}
    assert plane.observed(plane.metrics.rl_fanout_duration_seconds) == {(): 1}


def events(caplog):
    return [(record.name, record.levelname, record.message, record.fields) for record in caplog.records]


LINE = {"worker_id": "a", "url": "http://a", "method": "GET", "path": "v1/op", "status": 503, "latency_ms": 12}


async def test_an_answer_is_logged(plane, caplog, make_worker, eventually):
    caplog.set_level("INFO")
    plane.accounts.called("GET", "v1/op", [Answered(make_worker(), 503, 0.0129, b"{}")])
    await eventually(lambda: caplog.records)
    assert events(caplog) == [("smg_rl", "INFO", "rl.proxy", LINE)]


async def test_a_fan_out_is_logged_with_its_counts(plane, caplog, outcomes):
    caplog.set_level("INFO")
    plane.accounts.fanned_out("pause", "a=b", Report(list(outcomes.values())), 0.5)
    plane.accounts.flush()
    fields = {"path": "pause", "selector": "a=b", "total": 5, "succeeded": 1, "failed": 4, "latency_ms": 500}
    assert events(caplog) == [("smg_rl", "INFO", "rl.fanout", fields)]


async def test_calls_are_counted_in_the_next_turn_and_logged_a_few_a_turn(plane, caplog, make_worker, eventually):
    caplog.set_level("INFO")
    answers = [Answered(make_worker(f"w{number}"), 200, 0.0, b"{}") for number in range(5 * LINES_A_TURN)]
    plane.accounts.called("POST", "pause", answers)
    assert plane.samples(plane.metrics.rl_control_calls) == {}
    await asyncio.sleep(0)
    assert plane.samples(plane.metrics.rl_control_calls) == {("pause", "ok"): len(answers)}
    assert caplog.records == []
    seen = []

    def look():
        seen.append(len(caplog.records))
        return seen[-1] == len(answers)

    await eventually(look)
    assert max(later - earlier for earlier, later in pairwise(seen)) <= LINES_A_TURN * 2
    assert [record.fields["worker_id"] for record in caplog.records] == [answer.worker.id for answer in answers]


async def test_lines_that_wait_are_bounded(plane, caplog, make_worker, monkeypatch, eventually):
    caplog.set_level("INFO")
    monkeypatch.setattr("smg.control.rl.accounts.MOST_WAITING", 10)
    plane.accounts.called("POST", "pause", [Answered(make_worker(), 200, 0.0, b"{}")] * 100)
    await eventually(lambda: caplog.records)
    assert len(caplog.records) >= 90


async def test_a_flush_leaves_nothing_to_do(plane, caplog, outcomes, make_worker):
    caplog.set_level("INFO")
    plane.accounts.called("POST", "pause", [Answered(make_worker(), 200, 0.0, b"{}")] * 20)
    plane.accounts.flush()
    assert len(caplog.records) == 20
    plane.accounts.flush()
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(caplog.records) == 20


def test_one_that_found_nobody_is_not_logged(plane, caplog):
    caplog.set_level("INFO")
    plane.accounts.nobody_matched(0.5)
    assert caplog.records == []
