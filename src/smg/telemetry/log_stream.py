"""The one stream of log lines: events and access lines in the order they happened, buffered.

Appending a line is one list operation, so any thread may write. Lines leave when 64 K characters have
gathered, when somebody asks (the shell does so several times a second and at exit; warnings and errors do at
once), and before the UTC day changes. What a line looks like is for `logs.py` and `access_log.py`, where it
goes for `log_outputs.py`.

A process that forks flushes first, or its child writes the same lines again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Lock

from smg.telemetry.log_outputs import Output

FLUSH_CHARS = 64 * 1024
# How long an exit waits for a slow reader of the last lines.
CLOSE_WAIT_SECS = 1.0

_DATE_CHARS = len("YYYY-MM-DD")


class LogStream:
    """Gathers lines and hands them to the outputs. `now` gives the seconds since the epoch."""

    __slots__ = ("_chars", "_lines", "_now", "_outputs", "_second", "_stamp", "_writing")

    def __init__(self, outputs: Sequence[Output], now: Callable[[], float] = time.time) -> None:
        self._outputs = outputs
        self._now = now
        self._lines: list[str] = []
        self._chars = 0
        self._writing = Lock()
        self._second = int(now())
        self._stamp = utc_stamp(self._second)

    def stamp(self) -> str:
        """The time as `YYYY-MM-DD HH:MM:SS` in UTC, the same object for a whole second: a key to cache by."""
        if not self._second <= self._now() < self._second + 1:
            self._tick()
        return self._stamp

    def write(self, line: str) -> None:
        """Add a line, which ends with its newline."""
        self._lines.append(line)
        self._chars += len(line)
        if self._chars >= FLUSH_CHARS:
            self.flush()

    def flush(self) -> None:
        """Hand all lines to the outputs. Never raises and never waits.

        While another thread, or the frame that a signal interrupted, is at it, lines stay for the next flush.
        """
        if not self._writing.acquire(blocking=False):
            return
        try:
            lines = self._lines[:]
            # Only what was copied goes, and the list stays the same object: no line added meanwhile is lost.
            del self._lines[: len(lines)]
            self._chars = 0
            data = "".join(lines).encode("utf-8", "backslashreplace")
            for output in self._outputs:
                output.send(data, self._stamp[:_DATE_CHARS])
        finally:
            self._writing.release()

    def close(self, wait_secs: float = CLOSE_WAIT_SECS) -> None:
        """Write what is left, waiting for a slow reader up to `wait_secs`."""
        self.flush()
        for output in self._outputs:
            output.close(wait_secs)

    @property
    def lost_lines(self) -> int:
        """How many lines no output took, summed over the outputs."""
        return sum(output.lost_lines for output in self._outputs)

    def _tick(self) -> None:
        second = int(self._now())
        stamp = utc_stamp(second)
        if stamp[:_DATE_CHARS] != self._stamp[:_DATE_CHARS]:
            self.flush()
        self._second, self._stamp = second, stamp


def utc_stamp(second: int) -> str:
    """A second since the epoch as `YYYY-MM-DD HH:MM:SS` in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(second))
