import asyncio
import json
import logging
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from smg.errors import ConfigError
from smg.telemetry.logs import Logs, get_logger, start_logs

STAMP = "2026-11-30 12:00:00"


def fail(message: str) -> None:
    raise RuntimeError(message)


class Rig:
    """A started log that writes into a file."""

    def __init__(self, path: Path, **options) -> None:
        self.path = path
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT)
        self.logs: Logs = start_logs(fd=self.fd, now=lambda: 1_796_040_000.0, **options)

    def written(self) -> str:
        return self.path.read_text()

    def text(self) -> str:
        self.logs.flush()
        return self.written()

    def events(self) -> list[dict]:
        return [json.loads(line) for line in self.text().splitlines()]

    def stop(self) -> None:
        self.logs.close()
        os.close(self.fd)


@pytest.fixture
def start(tmp_path: Path):
    rigs: list[Rig] = []

    def make(**options) -> Rig:
        rigs.append(Rig(tmp_path / "log", **options))
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.stop()


def test_an_event_is_one_line_of_text(start) -> None:
    rig = start()
    get_logger("smg.fleet").info("worker ready", url="http://a:1", models=2, warm=True, note=None)
    assert rig.text() == (f'{STAMP}  INFO smg::fleet: worker ready url="http://a:1" models=2 warm=true note=null\n')


def test_an_event_is_one_line_of_json(start) -> None:
    rig = start(json=True)
    get_logger("smg.fleet").error("worker lost", url='http://"a"', ratio=0.5)
    assert rig.text() == (
        f'{{"timestamp":"{STAMP}","level":"ERROR","message":"worker lost","target":"smg::fleet",'
        '"url":"http://\\"a\\"","ratio":0.5}\n'
    )


def test_an_event_without_fields_ends_with_its_message(start) -> None:
    rig = start()
    get_logger("smg.app").warning("draining")
    assert rig.text() == f"{STAMP}  WARN smg::app: draining\n"


def test_our_events_pass_from_the_level_up(start) -> None:
    rig = start(level="warn", json=True)
    log = get_logger("smg.fleet")
    for write in (log.debug, log.info, log.warning, log.error):
        write("said")
    assert [event["level"] for event in rig.events()] == ["WARN", "ERROR"]


def test_what_others_say_needs_a_warning(start) -> None:
    rig = start(level="debug", json=True)
    get_logger("smg_rl").debug("ours")
    logging.getLogger("asyncio").info("theirs")
    logging.getLogger("grpc._channel").warning("theirs %s", "too")
    assert [(event["target"], event["message"]) for event in rig.events()] == [
        ("smg_rl", "ours"),
        ("grpc::_channel", "theirs too"),
    ]


def test_valid_directives_replace_the_level(start) -> None:
    rig = start(level="debug", directives="warn,smg_rl=info", json=True)
    get_logger("smg.fleet").info("no")
    get_logger("smg_rl").info("yes")
    assert [event["message"] for event in rig.events()] == ["yes"]


def test_invalid_directives_are_reported_and_the_level_counts(start) -> None:
    rig = start(directives="smg=loud", json=True)
    get_logger("smg.fleet").info("yes")
    ignored, event = rig.events()
    assert (ignored["level"], ignored["directives"]) == ("WARN", "smg=loud")
    assert event["message"] == "yes"


@pytest.mark.parametrize("directives", [None, "", "  "])
def test_empty_directives_are_none(start, directives: str | None) -> None:
    rig = start(directives=directives)
    get_logger("smg.fleet").info("yes")
    assert rig.text().count("\n") == 1


def test_asyncio_reports_in_our_format(start) -> None:
    rig = start(json=True)
    loop = asyncio.new_event_loop()
    loop.call_exception_handler({"message": "task\nfailed", "exception": ValueError("bad")})
    loop.close()
    [event] = rig.events()
    assert (event["level"], event["target"]) == ("ERROR", "asyncio")
    assert event["message"].startswith("task\nfailed")
    assert "ValueError: bad" in event["exception"]


def test_warnings_come_in_our_format(start) -> None:
    rig = start(json=True)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=False)
        logging.captureWarnings(capture=True)
        warnings.warn("old thing", DeprecationWarning, stacklevel=1)
    [event] = rig.events()
    assert (event["level"], event["target"]) == ("WARN", "py::warnings")
    assert "DeprecationWarning: old thing" in event["message"]


def test_events_and_access_lines_keep_their_order(start) -> None:
    rig = start(json=True)
    log = get_logger("smg.fleet")
    for number in range(3):
        log.info("event", number=number)
        rig.logs.access.record("GET", "/v1/models", 200, number, "r")
    found = [(event["target"], event.get("number", event.get("latency_us"))) for event in rig.events()]
    assert found == [
        ("smg::fleet", 0), ("smg::response", 0), ("smg::fleet", 1), ("smg::response", 1),
        ("smg::fleet", 2), ("smg::response", 2),
    ]  # fmt: skip


def test_a_warning_is_written_at_once_with_all_before_it(start) -> None:
    rig = start()
    log = get_logger("smg.fleet")
    log.info("first")
    assert rig.written() == ""
    log.warning("second")
    assert [line.rsplit(" ", 1)[1] for line in rig.written().splitlines()] == ["first", "second"]


def test_closing_writes_the_rest_and_lets_go(tmp_path: Path, monkeypatch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "level", logging.CRITICAL)
    handlers = list(root.handlers)
    rig = Rig(tmp_path / "closed")
    get_logger("smg.fleet").info("last")
    rig.stop()
    assert rig.written().endswith("last\n")
    assert (root.level, root.handlers) == (logging.CRITICAL, handlers)


def test_an_exit_without_closing_loses_nothing() -> None:
    script = (
        "from smg.telemetry.logs import get_logger, start_logs\n"
        "logs = start_logs()\n"
        "for number in range(3000):\n"
        "    logs.access.record('GET', '/v1/models', 200, number, 'r')\n"
        "get_logger('smg.app').info('bye')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 3001
    assert lines[-1].endswith("smg::app: bye")


def test_an_exception_brings_its_traceback_on_the_same_line(start) -> None:
    rig = start()
    try:
        fail("broken\nthing")
    except RuntimeError:
        get_logger("smg.app").exception("loop failed", loop="health")
    [line] = rig.text().splitlines()
    assert 'loop="health" exception="Traceback (most recent call last):\\n' in line
    assert line.endswith('RuntimeError: broken\\nthing"')


def test_a_long_traceback_keeps_its_end(start) -> None:
    rig = start(json=True)
    try:
        fail("x" * 20_000 + " the end")
    except RuntimeError:
        get_logger("smg.app").exception("failed")
    [event] = rig.events()
    assert event["exception"].endswith(" the end")
    assert len(event["exception"]) == 8192


def test_values_cannot_forge_a_line_or_a_field(start) -> None:
    rig = start()
    get_logger("smg.auth").info("denied", path=f'/x" role="admin"\n{STAMP} ERROR smg: stolen')
    logging.getLogger("lib").warning("first\nsecond\x85third\u2028fourth")
    first, second = rig.text().splitlines()
    assert first.endswith(r'path="/x\" role=\"admin\"\n' + f'{STAMP} ERROR smg: stolen"')
    assert second.endswith(r"lib: first\nsecond\u0085third\u2028fourth")


def test_values_and_messages_are_cut(start) -> None:
    rig = start(json=True)
    get_logger("smg.fleet").info("m" * 3000, value="v" * 3000)
    [event] = rig.events()
    assert (len(event["message"]), len(event["value"])) == (1025, 1025)


def test_a_field_cannot_take_the_place_of_the_lines_own_keys(start) -> None:
    rig = start(json=True)
    get_logger("smg.fleet").info("moved", level="x", message="y", target="z", timestamp="w")
    [event] = rig.events()
    assert (event["level"], event["message"], event["target"]) == ("INFO", "moved", "smg::fleet")
    assert (event["level_"], event["message_"], event["target_"]) == ("x", "y", "z")


@pytest.mark.parametrize("json_lines", [False, True])
def test_secrets_are_replaced_in_messages_fields_tracebacks_and_paths(start, json_lines: bool) -> None:
    rig = start(secrets=["hush-hush-secret"], json=json_lines)
    logging.getLogger("lib").warning("got %s", "Bearer hush-hush-secret")
    try:
        fail("hush-hush-secret refused")
    except RuntimeError as error:
        get_logger("smg.auth").exception("failed", error=error, keys=["hush-hush-secret"])
    rig.logs.access.record("GET", "/hush-hush-secret", 404, 1, "r")
    assert "hush" not in rig.text()
    assert rig.text().count("[redacted]") >= 5


def test_a_daily_file_gets_the_same_lines(start, tmp_path: Path) -> None:
    rig = start(directory=str(tmp_path / "logs"))
    get_logger("smg.fleet").info("said")
    rig.logs.access.record("GET", "/v1/models", 200, 1, "r")
    assert rig.text() == (tmp_path / "logs" / "smg.2026-11-30").read_text()
    assert rig.text().count("\n") == 2


def test_an_unusable_directory_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    before = list(logging.getLogger().handlers)
    with pytest.raises(ConfigError, match="--log-dir"):
        start_logs(directory=str(tmp_path / "taken"))
    assert logging.getLogger().handlers == before


def test_logging_goes_on_when_stdout_is_gone() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    logs = start_logs(fd=writer)
    get_logger("smg.fleet").warning("one")
    get_logger("smg.fleet").info("two")
    logs.access.record("GET", "/v1/models", 200, 1, "r")
    logs.flush()
    logs.close()
    os.close(writer)
    assert logs.lost_lines == 3


def test_a_value_that_cannot_be_shown_does_not_reach_the_caller(start, capsys) -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    rig = start()
    get_logger("smg.fleet").info("said", value=Broken())
    get_logger("smg.fleet").info("after")
    assert rig.text().splitlines() == [f"{STAMP}  INFO smg::fleet: after"]
    assert "no text" in capsys.readouterr().err


def test_a_level_that_is_not_wanted_does_not_look_at_its_fields(start) -> None:
    class Touchy:
        def __str__(self) -> str:
            raise AssertionError("looked at")

    rig = start()
    get_logger("smg.fleet").debug("said", value=Touchy())
    assert rig.text() == ""


def test_the_caller_is_known_to_other_handlers(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        get_logger("smg.fleet").info("said")
    [record] = caplog.records
    assert record.funcName == "test_the_caller_is_known_to_other_handlers"
