"""One line per finished request.

This is the only logging on the path of every request, so a line is a filled-in template in the stream's
buffer: no record object, no formatter. The template holds all that is the same for a second. Successes are
INFO, client errors WARN, server errors ERROR, and probes DEBUG whatever came of them. A line does not ask to
be written at once even when it is an error: a flood of refused requests must not become a flood of writes. It
shows the path without its query, and no header but the request id.
"""

from __future__ import annotations

import logging

from smg.telemetry.log_filter import LogFilter, level_name
from smg.telemetry.log_stream import LogStream
from smg.telemetry.log_values import MAX_VALUE_CHARS, Redactor, cut, escaped

PROBE_PATHS = frozenset({"/liveness", "/readiness", "/health", "/health_generate"})
TARGET = "smg::response"

FIRST_CLIENT_ERROR = 400
FIRST_SERVER_ERROR = 500

_DONE = "finished processing request"
# Level and message by outcome: success, client error, server error, probe.
_OUTCOMES = (
    (logging.INFO, _DONE),
    (logging.WARNING, "request failed with client error"),
    (logging.ERROR, "request failed with server error"),
    (logging.DEBUG, _DONE),
)
_PROBE = 3

# Methods, paths, workers and error codes repeat: their escaped form is kept, if it is no longer than this,
# until so many different ones were seen.
_KEPT_VALUES = 2048
_KEPT_CHARS = 256

# Strings stand between quotes, numbers do not.
_FIELDS = (
    ("method", '"%s"'),
    ("path", '"%s"'),
    ("status", "%s"),
    ("latency_us", "%s"),
    ("request_id", '"%s"'),
    ("worker", '"%s"'),
    ("request_bytes", "%s"),
    ("response_bytes", "%s"),
)
# A template's beginning, what joins its fields, one field, and its end, which has room for an error code's.
_TEXT = ("{stamp} {level:>5} {target}: {message} ", " ", "{name}={value}", "%s\n")
_JSON = (
    '{{"timestamp":"{stamp}","level":"{level}","message":"{message}","target":"{target}",',
    ",",
    '"{name}":{value}',
    "%s}\n",
)


class AccessLog:
    """Writes access lines of one format."""

    __slots__ = (
        "_error_fields",
        "_format",
        "_kept",
        "_redact",
        "_stamp",
        "_stream",
        "_templates",
        "_wanted",
    )

    def __init__(
        self,
        stream: LogStream,
        wanted: LogFilter,
        *,
        json: bool = False,
        redact: Redactor | None = None,
    ) -> None:
        threshold = wanted.threshold(TARGET)
        self._stream = stream
        self._wanted = tuple(level >= threshold for level, _ in _OUTCOMES)
        self._redact = redact or Redactor()
        self._format = _JSON if json else _TEXT
        self._kept: dict[str, str] = {}
        self._error_fields: dict[str, str] = {}
        self._stamp = ""
        self._templates: list[str] = []

    def record(
        self,
        method: str,
        path: str,
        status: int,
        latency_us: int,
        request_id: str,
        worker: str = "",
        request_bytes: int = 0,
        response_bytes: int = 0,
        error_code: str = "",
    ) -> None:
        """Note a finished request.

        `path` is without its query. `worker` is the URL of the worker whose answer was relayed, empty if the
        gateway answered itself; `error_code` is the gateway's own. Bytes are those of the bodies.
        """
        failure = (status >= FIRST_CLIENT_ERROR) + (status >= FIRST_SERVER_ERROR)
        outcome = _PROBE if path in PROBE_PATHS else failure
        if not self._wanted[outcome]:
            return
        stream = self._stream
        stamp = stream.stamp()
        if stamp is not self._stamp:
            self._new_second(stamp)
        kept = self._kept
        # `is_plain` written out: a request id is new every time, and a call is a tenth of the line's cost.
        plain = request_id.isprintable() and '"' not in request_id and "\\" not in request_id
        stream.write(
            self._templates[outcome]
            % (
                kept.get(method) or self._keep(method),
                kept.get(path) or self._keep(path),
                status,
                latency_us,
                request_id if plain and len(request_id) <= MAX_VALUE_CHARS else escaped(cut(request_id)),
                (kept.get(worker) or self._keep(worker)) if worker else "",
                request_bytes,
                response_bytes,
                (self._error_fields.get(error_code) or self._error_field(error_code)) if error_code else "",
            )
        )

    def _new_second(self, stamp: str) -> None:
        self._stamp = stamp
        self._templates = [self._template(stamp, level_name(level), message) for level, message in _OUTCOMES]

    def _template(self, stamp: str, level: str, message: str) -> str:
        begin, join, field, end = self._format
        head = begin.format(stamp=stamp, level=level, message=message, target=TARGET)
        return head + join.join(field.format(name=name, value=value) for name, value in _FIELDS) + end

    def _error_field(self, error_code: str) -> str:
        _, join, field, _ = self._format
        shown = join + field.format(name="error_code", value=f'"{self._shown(error_code)}"')
        return _kept_in(self._error_fields, error_code, shown)

    def _keep(self, value: str) -> str:
        return _kept_in(self._kept, value, self._shown(value))

    def _shown(self, value: str) -> str:
        return escaped(cut(self._redact(value)))


def _kept_in(kept: dict[str, str], value: str, shown: str) -> str:
    if len(kept) >= _KEPT_VALUES:
        kept.clear()
    if len(value) <= _KEPT_CHARS:
        kept[value] = shown
    return shown
