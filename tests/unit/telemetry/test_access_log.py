import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.telemetry.access_log import AccessLog
from smg.telemetry.log_filter import LogFilter
from smg.telemetry.log_stream import LogStream
from smg.telemetry.log_values import Redactor

NOON = 1_796_040_000.0
STAMP = "2026-11-30 12:00:00"
EVERYTHING = LogFilter(logging.DEBUG)
anything = st.text(st.characters(exclude_categories=()), max_size=60)


class Lines:
    """An output that keeps text."""

    def __init__(self) -> None:
        self.text = ""
        self.lost_lines = 0

    def send(self, data: bytes, date: str) -> None:
        self.text += data.decode()

    def close(self, wait_secs: float) -> None:
        pass


class Rig:
    def __init__(self, wanted: LogFilter = EVERYTHING, **options) -> None:
        self.now = NOON
        self.output = Lines()
        self.stream = LogStream([self.output], lambda: self.now)
        self.log = AccessLog(self.stream, wanted, **options)

    def text(self) -> str:
        self.stream.flush()
        return self.output.text


def test_a_success_is_one_line_of_text() -> None:
    rig = Rig()
    rig.log.record("POST", "/v1/chat/completions", 200, 1234, "req-1", "http://10.0.0.1:8000", 512, 2048)
    assert rig.text() == (
        f"{STAMP}  INFO smg::response: finished processing request "
        'method="POST" path="/v1/chat/completions" status=200 latency_us=1234 request_id="req-1" '
        'worker="http://10.0.0.1:8000" request_bytes=512 response_bytes=2048\n'
    )


def test_an_error_of_our_own_names_its_code_and_no_worker() -> None:
    rig = Rig()
    rig.log.record("POST", "/generate", 503, 9, "req-2", error_code="no_available_workers")
    assert rig.text() == (
        f"{STAMP} ERROR smg::response: request failed with server error "
        'method="POST" path="/generate" status=503 latency_us=9 request_id="req-2" '
        'worker="" request_bytes=0 response_bytes=0 error_code="no_available_workers"\n'
    )


def test_json_has_the_same_in_the_same_order() -> None:
    rig = Rig(json=True)
    rig.log.record("POST", "/generate", 404, 9, "req-3", "http://w", 1, 2, "model_not_found")
    assert rig.text() == (
        f'{{"timestamp":"{STAMP}","level":"WARN","message":"request failed with client error",'
        '"target":"smg::response","method":"POST","path":"/generate","status":404,"latency_us":9,'
        '"request_id":"req-3","worker":"http://w","request_bytes":1,"response_bytes":2,'
        '"error_code":"model_not_found"}\n'
    )


@pytest.mark.parametrize(
    ("path", "status", "level"),
    [
        ("/generate", 200, "INFO"),
        ("/generate", 101, "INFO"),
        ("/generate", 304, "INFO"),
        ("/generate", 400, "WARN"),
        ("/generate", 499, "WARN"),
        ("/generate", 500, "ERROR"),
        ("/generate", 599, "ERROR"),
        ("/health", 200, "DEBUG"),
        ("/readiness", 503, "DEBUG"),
        ("/liveness", 200, "DEBUG"),
        ("/health_generate", 501, "DEBUG"),
    ],
)
def test_the_level_follows_the_status_and_probes_are_debug(path: str, status: int, level: str) -> None:
    rig = Rig()
    rig.log.record("GET", path, status, 1, "r")
    assert f" {level} smg::response: " in rig.text()


@pytest.mark.parametrize(
    ("level", "statuses"),
    [("debug", [200, 404, 500, 0]), ("info", [200, 404, 500]), ("warn", [404, 500]), ("error", [500])],
)
def test_lines_below_the_level_are_not_written(level: str, statuses: list[int]) -> None:
    rig = Rig(LogFilter.for_level(level), json=True)
    for status in (200, 404, 500):
        rig.log.record("GET", "/v1/models", status, 1, "r")
    rig.log.record("GET", "/health", 0, 1, "r")
    assert [json.loads(line)["status"] for line in rig.text().splitlines()] == statuses


def test_a_line_waits_for_the_flush_whatever_its_level() -> None:
    rig = Rig()
    rig.log.record("GET", "/v1/models", 500, 1, "r")
    assert rig.output.text == ""


def test_each_second_has_its_stamp() -> None:
    rig = Rig()
    rig.log.record("GET", "/a", 200, 1, "r")
    rig.now += 1
    rig.log.record("GET", "/a", 200, 1, "r")
    assert [line[:19] for line in rig.text().splitlines()] == [STAMP, "2026-11-30 12:00:01"]


def test_a_line_break_cannot_forge_a_line() -> None:
    rig = Rig()
    forged = f'x"\n{STAMP} ERROR smg: stolen\x85again\u2028'
    rig.log.record(forged, forged, 200, 1, forged, forged, 0, 0, forged)
    assert len(rig.text().splitlines()) == 1


@given(anything, anything, anything, st.booleans())
def test_any_value_of_a_caller_reads_back_from_json(path: str, rid: str, code: str, twice: bool) -> None:
    rig = Rig(json=True)
    for _ in range(1 + twice):
        rig.log.record("GET", path, 500, 1, rid, "", 0, 0, code)
    lines = rig.text().splitlines()
    assert len(lines) == 1 + twice
    for line in map(json.loads, lines):
        # json.loads joins surrogate pairs that were separate characters; a round trip does the same to ours.
        expected = json.loads(json.dumps([path, rid, code]))
        assert [line["path"], line["request_id"], line.get("error_code", "")] == expected


@given(anything, anything)
def test_any_text_line_stays_one_printable_line(path: str, rid: str) -> None:
    rig = Rig()
    rig.log.record("GET", path, 200, 1, rid)
    line, newline = rig.text()[:-1], rig.text()[-1]
    assert newline == "\n"
    assert line.isprintable()


def test_long_values_are_cut() -> None:
    rig = Rig(json=True)
    rig.log.record("GET", "/" + "p" * 5000, 404, 1, "r" * 5000)
    line = json.loads(rig.text())
    assert line["path"] == "/" + "p" * 1023 + "…"
    assert line["request_id"] == "r" * 1024 + "…"


def test_a_secret_in_a_path_is_replaced() -> None:
    rig = Rig(redact=Redactor(["hush-hush-secret"]))
    rig.log.record("GET", "/v1/hush-hush-secret", 404, 1, "r")
    assert "hush" not in rig.text()
    assert 'path="/v1/[redacted]"' in rig.text()


def test_what_is_kept_of_invented_paths_is_bounded() -> None:
    rig = Rig()
    for number in range(10_000):
        rig.log.record("GET", f"/{number}", 404, 1, "r", error_code=f"e{number}")
    rig.log.record("GET", "/" + "x" * 1000, 404, 1, "r")
    assert len(rig.log._kept) < 5000
    assert len(rig.log._error_fields) < 5000
    assert max(map(len, rig.log._kept)) < 1000
