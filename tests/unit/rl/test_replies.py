import dataclasses
import json

import pytest

from smg.rl import CallResult, FanoutError, FanoutFailure, RlError, Worker
from smg.rl.http1 import Reply
from smg.rl.replies import read_call, read_fanout, read_worker, read_workers

ROW = {
    "id": "w-1",
    "url": "http://e:1@0",
    "base_url": "http://e:1",
    "engine": "sglang",
    "engine_version": "0.5",
    "model_id": "m",
    "worker_type": "regular",
    "connection_mode": "http",
    "tp_size": 2,
    "dp_size": None,
    "pp_size": 1,
    "dp_ranks": 4,
    "role": None,
    "health": "ready",
    "weight_version": "default",
    "labels": {"a": "b"},
    "capabilities": {"source": "static", "pause_modes": ["abort"], "abort": True},
}
NULLABLE = {"engine_version", "model_id", "tp_size", "dp_size", "pp_size", "role", "weight_version"}
CALL = {"worker_id": "w-1", "url": "http://e:1", "status": 200, "latency_ms": 7, "body": {"ok": 1}}
FAILED = {"worker_id": "w-2", "url": "http://e:2", "error": "upstream_timeout", "message": "late"}
REPORT = {"results": {"w-1": CALL}, "failed": [], "total": 1, "succeeded": 1}
PARTIAL = {"results": {"w-1": CALL}, "failed": [FAILED], "total": 2, "succeeded": 1}


def reply(payload, status=200):
    return Reply(status, payload if isinstance(payload, bytes) else json.dumps(payload).encode())


def without(mapping, name):
    return {key: value for key, value in mapping.items() if key != name}


def listing(*rows):
    return {"protocol_version": 1, "workers": list(rows), "total": len(rows)}


READERS = {
    "workers": read_workers,
    "worker": read_worker,
    "call": read_call,
    "fanout": lambda reply: read_fanout(reply, allow_partial=False),
    "partial": lambda reply: read_fanout(reply, allow_partial=True),
}
every_reader = pytest.mark.parametrize("read", READERS.values(), ids=list(READERS))


def caught(read, payload, status=200):
    with pytest.raises(RlError) as error:
        read(reply(payload, status))
    return error.value


# --- discovery


def test_a_row_becomes_a_worker_with_every_column():
    worker = read_worker(reply(ROW))
    assert dataclasses.asdict(worker) == ROW
    assert [field.name for field in dataclasses.fields(Worker)] == list(ROW)


def test_a_listing_becomes_a_list_of_workers_in_its_order():
    rows = [ROW, {**ROW, "id": "w-0"}]
    assert [dataclasses.asdict(worker) for worker in read_workers(reply(listing(*rows)))] == rows
    assert read_workers(reply(listing())) == []


def test_columns_of_later_gateways_are_ignored():
    assert read_worker(reply({**ROW, "control_url": "http://e"})) == read_worker(reply(ROW))


@pytest.mark.parametrize("column", ROW)
def test_a_column_may_be_null_or_missing_only_where_the_contract_says_so(column):
    for row in ({**ROW, column: None}, without(ROW, column)):
        if column in NULLABLE:
            assert getattr(read_worker(reply(row)), column) is None
        else:
            error = caught(read_worker, row)
            assert (error.code, error.payload) == ("unexpected_response", row)
            assert column in str(error)


@pytest.mark.parametrize(("column", "value"), [("id", 1), ("tp_size", "2"), ("dp_ranks", True), ("labels", [])])
def test_a_column_of_another_type_is_unexpected(column, value):
    assert caught(read_workers, listing({**ROW, column: value})).code == "unexpected_response"


def test_another_version_of_the_contract_is_not_guessed_at():
    error = caught(read_workers, {**listing(ROW), "protocol_version": 2})
    assert error.code == "unexpected_response"
    assert "protocol_version is 2" in str(error)


# --- calls


@pytest.mark.parametrize("status", [200, 302, 400, 404, 503])
def test_an_engine_that_answered_is_a_result_whatever_its_status(status):
    result = read_call(reply({**CALL, "status": status, "body": {"error": "in the body"}}, status))
    assert dataclasses.asdict(result) == {**CALL, "status": status, "body": {"error": "in the body"}}
    assert result == CallResult("w-1", "http://e:1", status, 7, {"error": "in the body"})


@pytest.mark.parametrize("body", [None, "text", [1], 0.5, False])
def test_an_engines_body_may_be_any_json(body):
    assert read_call(reply({**CALL, "body": body})).body == body


def test_a_body_that_was_cut_is_told_without_being_a_field():
    cut = read_call(reply({**CALL, "body": "x", "body_truncated": True}))
    assert cut.body_truncated
    assert dataclasses.asdict(cut) == {**CALL, "body": "x"}
    assert not read_call(reply(CALL)).body_truncated
    assert cut == read_call(reply({**CALL, "body": "x"}))
    assert [field.name for field in dataclasses.fields(CallResult)] == list(CALL)


@pytest.mark.parametrize("status", [400, 404, 422, 502, 504])
def test_the_gateways_own_error_is_raised_with_its_code(status):
    payload = {"error": "some_code", "message": "why", "id": "w-1"}
    error = caught(read_call, payload, status)
    assert type(error) is RlError
    assert (error.status, error.code, error.payload, error.message) == (status, "some_code", payload, "why")
    assert str(error) == f"some_code (HTTP {status}): why"


def test_an_error_with_a_latency_is_still_the_gateways():
    assert caught(read_call, {"error": "upstream_timeout", "latency_ms": 5}, 504).code == "upstream_timeout"


@pytest.mark.parametrize("name", ["worker_id", "url", "status"])
def test_an_envelope_without_a_part_is_unexpected(name):
    assert caught(read_call, without(CALL, name)).code == "unexpected_response"


# --- fan-outs


def test_a_fan_out_in_which_all_succeeded_is_a_result():
    result = READERS["fanout"](reply(REPORT))
    assert dataclasses.asdict(result) == REPORT
    assert isinstance(result.results["w-1"], CallResult)


def test_a_fan_out_in_which_some_failed_is_raised_with_its_report():
    error = caught(READERS["fanout"], PARTIAL, 207)
    assert type(error) is FanoutError
    assert (error.status, error.code, error.payload) == (207, "fanout_partial", PARTIAL)
    assert error.result == READERS["partial"](reply(PARTIAL, 207))


def test_a_partial_fan_out_is_returned_where_that_is_allowed():
    result = READERS["partial"](reply(PARTIAL, 207))
    assert result.failed == [FanoutFailure("w-2", "http://e:2", None, "upstream_timeout", "late")]
    assert (result.total, result.succeeded, list(result.results)) == (2, 1, ["w-1"])


def test_the_status_of_a_failure_is_the_engines():
    failed = {**FAILED, "error": "upstream_error", "status": 503, "connection_mode": "http"}
    result = READERS["partial"](reply({**PARTIAL, "failed": [failed]}, 207))
    assert result.failed[0].status == 503


def test_a_report_that_counts_less_successes_than_targets_is_a_failure_too():
    assert caught(READERS["fanout"], {**REPORT, "total": 2}, 207).code == "fanout_partial"


@pytest.mark.parametrize("read", [READERS["fanout"], READERS["partial"]])
def test_a_fan_out_that_was_refused_is_no_partial_one(read):
    error = caught(read, {"error": "invalid_selector", "message": "no", "offset": 6}, 400)
    assert type(error) is RlError
    assert (error.code, error.payload["offset"]) == ("invalid_selector", 6)


@pytest.mark.parametrize("name", REPORT)
def test_a_report_without_a_part_is_unexpected(name):
    assert caught(READERS["fanout"], without(REPORT, name)).code == "unexpected_response"


# --- whatever was asked


@every_reader
@pytest.mark.parametrize(
    ("data", "payload"),
    [
        (b"", ""),
        (b"Invalid token", "Invalid token"),
        (b"\xff<html>", "\ufffd<html>"),
        (b'["list"]', ["list"]),
        (b'"text"', "text"),
        (b"null", None),
        (b"[" * 100_000, "[" * 100_000),
    ],
    ids=["empty", "text", "bytes", "list", "string", "null", "deep"],
)
@pytest.mark.parametrize("status", [401, 404, 500])
def test_an_error_without_a_json_object_is_an_http_error(read, data, payload, status):
    error = caught(read, data, status)
    assert type(error) is RlError
    assert (error.status, error.code, error.payload) == (status, "http_error", payload)
    assert str(error) == f"http_error (HTTP {status})"


@every_reader
@pytest.mark.parametrize("payload", [{}, {"detail": "no"}, {"error": 5}, {"error": {"code": 400}}, {"error": ""}])
def test_an_error_that_names_no_code_is_an_http_error(read, payload):
    assert caught(read, payload, 500).code == "http_error"


@every_reader
def test_a_code_inside_an_error_envelope_is_found(read):
    payload = {"error": {"type": "Payload Too Large", "code": "request_body_too_large", "message": "too much"}}
    error = caught(read, payload, 413)
    assert (error.code, error.message, error.payload) == ("request_body_too_large", "too much", payload)


@every_reader
@pytest.mark.parametrize("payload", [b"", b"<html>", [], "text", None, {}, {"error": "no error status"}])
@pytest.mark.parametrize("status", [200, 204])
def test_a_success_that_is_no_result_is_unexpected(read, payload, status):
    error = caught(read, payload, status)
    assert type(error) is RlError
    assert (error.status, error.code) == (status, "unexpected_response")


@every_reader
@pytest.mark.parametrize("payload", [b"", listing(ROW), ROW, REPORT])
def test_a_redirect_is_unexpected(read, payload):
    assert caught(read, payload, 307).code == "unexpected_response"
