"""The log: structured events, in text or JSON, on standard output and in a daily file.

    log = get_logger("smg.fleet")
    log.info("worker ready", url=worker.url, model=worker.model_id)

Events travel through the standard library's logging, which asyncio brings along anyway: what asyncio,
warnings and libraries have to say takes the same way and comes out in the same format. One handler renders a
record and adds it to the stream (`log_stream.py`) that access lines (`access_log.py`) go to as well.
`start_logs` puts all of it up.

An event's message is a constant phrase; what varies goes into its fields. Callers do not log headers, keys or
bodies.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from smg.errors import ConfigError
from smg.telemetry.access_log import AccessLog
from smg.telemetry.log_filter import LogFilter, level_name, target_name
from smg.telemetry.log_outputs import DailyFileOutput, Output, StdoutOutput
from smg.telemetry.log_stream import LogStream, utc_stamp
from smg.telemetry.log_values import Redactor, cut, literal, one_line, quoted

# A traceback's last lines say what happened; they are worth more room than a value.
MAX_TRACEBACK_CHARS = 8192

_RESERVED = frozenset({"timestamp", "level", "message", "target"})
_traceback = logging.Formatter().formatException


class EventLogger:
    """Events of one target. A call whose level is not wanted costs a look-up."""

    __slots__ = ("_logger",)

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, message: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.DEBUG):
            self._log(logging.DEBUG, message, fields)

    def info(self, message: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.INFO):
            self._log(logging.INFO, message, fields)

    def warning(self, message: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.WARNING):
            self._log(logging.WARNING, message, fields)

    def error(self, message: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.ERROR):
            self._log(logging.ERROR, message, fields)

    def exception(self, message: str, /, **fields: object) -> None:
        """An error with the traceback of the exception that is being handled."""
        if self._logger.isEnabledFor(logging.ERROR):
            self._log(logging.ERROR, message, fields, exc_info=True)

    def _log(self, level: int, message: str, fields: Mapping[str, object], *, exc_info: bool = False) -> None:
        # Two frames up is the caller, for whatever other handler wants to know.
        self._logger.log(level, message, exc_info=exc_info, stacklevel=3, extra={"fields": fields})


def get_logger(name: str) -> EventLogger:
    """The logger whose target is `name`, dotted as modules are: `smg.fleet` shows as `smg::fleet`."""
    return EventLogger(logging.getLogger(name))


class StreamHandler(logging.Handler):
    """Renders records into the stream. Warnings and errors are written at once."""

    def __init__(self, stream: LogStream, wanted: LogFilter, *, json: bool, redact: Redactor) -> None:
        super().__init__()
        self._stream = stream
        self._wanted = wanted
        self._thresholds: dict[str, int] = {}
        self._redact = redact
        self._render = _json_line if json else _text_line

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno < self._threshold(record.name):
            return
        try:
            line = self._line(record)
        except Exception:  # noqa: BLE001  a value that cannot be shown is reported on stderr, as all handlers do
            self.handleError(record)
            return
        self._stream.write(line)
        if record.levelno >= logging.WARNING:
            self._stream.flush()

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        # The standard library closes its handlers at exit, so no way of ending loses the last lines.
        self._stream.close()
        super().close()

    def _line(self, record: logging.LogRecord) -> str:
        message = cut(self._redact(record.getMessage()))
        fields = {name: literal(value, self._redact) for name, value in _fields(record)}
        if record.exc_info and record.exc_info[0]:
            trace = self._redact(_traceback(record.exc_info))
            fields["exception"] = quoted(trace[-MAX_TRACEBACK_CHARS:])
        level, target = level_name(record.levelno), target_name(record.name)
        return self._render(self._stream.stamp(), level, target, message, fields)

    def _threshold(self, name: str) -> int:
        threshold = self._thresholds.get(name)
        if threshold is None:
            threshold = self._thresholds[name] = self._wanted.threshold(name)
        return threshold


@dataclass(frozen=True, slots=True)
class Logs:
    """The log of a running gateway. Its shell calls `flush` several times a second, and `close` at exit."""

    access: AccessLog
    stream: LogStream
    _handler: StreamHandler
    _former_level: int

    def flush(self) -> None:
        """Write what has gathered. Never raises and never waits."""
        self.stream.flush()

    def close(self) -> None:
        """Write the rest, and give the standard library's logging back."""
        logging.captureWarnings(capture=False)
        root = logging.getLogger()
        root.removeHandler(self._handler)
        root.setLevel(self._former_level)
        self._handler.close()

    @property
    def lost_lines(self) -> int:
        """How many lines could not be written."""
        return self.stream.lost_lines


def start_logs(
    *,
    level: str = "info",
    json: bool = False,
    directory: str | None = None,
    directives: str | None = None,
    secrets: Iterable[str] = (),
    fd: int = 1,
    now: Callable[[], float] = time.time,
) -> Logs:
    """Send all events from here on to file descriptor `fd`, and to a daily file in `directory` if given.

    `level` is debug, info, warn or error; `directives` is what RUST_LOG says and replaces the filter made
    from `level` if it is valid. `now` gives the seconds since the epoch.

    Raises:
        ConfigError: `directory` cannot be made or written.
    """
    wanted, ignored = _filter(level, directives)
    redact = Redactor(secrets)
    stream = LogStream(_outputs(fd, directory, now), now)
    handler = StreamHandler(stream, wanted, json=json, redact=redact)
    root = logging.getLogger()
    former_level = root.level
    root.addHandler(handler)
    root.setLevel(wanted.lowest)
    logging.captureWarnings(capture=True)
    if ignored:
        get_logger("smg.telemetry").warning("log filter ignored", directives=directives, problem=ignored)
    return Logs(AccessLog(stream, wanted, json=json, redact=redact), stream, handler, former_level)


def _filter(level: str, directives: str | None) -> tuple[LogFilter, str]:
    if directives and directives.strip():
        try:
            return LogFilter.parse(directives), ""
        except ValueError as problem:
            return LogFilter.for_level(level), str(problem)
    return LogFilter.for_level(level), ""


def _outputs(fd: int, directory: str | None, now: Callable[[], float]) -> list[Output]:
    outputs: list[Output] = [StdoutOutput(fd)]
    if directory:
        try:
            outputs.append(DailyFileOutput(directory, utc_stamp(int(now()))[:10]))
        except OSError as problem:
            raise ConfigError([f"--log-dir: {directory} cannot be written: {problem.strerror}"]) from problem
    return outputs


def _fields(record: logging.LogRecord) -> Iterable[tuple[str, object]]:
    fields: Mapping[str, object] = getattr(record, "fields", {})
    # A field cannot take the place of the line's own keys.
    return [(f"{name}_" if name in _RESERVED else name, value) for name, value in fields.items()]


def _text_line(stamp: str, level: str, target: str, message: str, fields: Mapping[str, str]) -> str:
    shown = "".join([f" {name}={value}" for name, value in fields.items()])
    return f"{stamp} {level:>5} {one_line(target)}: {one_line(message)}{shown}\n"


def _json_line(stamp: str, level: str, target: str, message: str, fields: Mapping[str, str]) -> str:
    shown = "".join([f',"{name}":{value}' for name, value in fields.items()])
    head = f'"timestamp":"{stamp}","level":"{level}","message":{quoted(message)},"target":{quoted(target)}'
    return f"{{{head}{shown}}}\n"
