"""Where log lines end up: standard output, and a file a day. Neither raises, nor waits while the gateway runs.

A log must not take the gateway down with it. A reader that does not read would block a plain write, so
standard output is written only when it is ready, in pieces that a pipe takes whole; what has to wait is kept
up to a bound. What cannot be written is dropped and counted. Who buffers lines and decides when to write is
`log_stream.py`.
"""

from __future__ import annotations

import os
import select
import stat
import time
from pathlib import Path
from typing import Protocol

MAX_BACKLOG_BYTES = 1 << 20
FILE_PREFIX = "smg"


class Output(Protocol):
    """A place for finished lines."""

    lost_lines: int

    def send(self, data: bytes, date: str) -> None:
        """Take whole lines in UTF-8, logged on `date` (YYYY-MM-DD). No lines: carry on with what waits."""

    def close(self, wait_secs: float) -> None:
        """Write what is left, for at most `wait_secs`."""


class StdoutOutput:
    """Lines to a file descriptor that somebody else may be reading."""

    __slots__ = ("_backlog", "_fd", "_is_file", "_poll", "lost_lines")

    def __init__(self, fd: int = 1) -> None:
        self._fd = fd
        self._backlog = bytearray()
        self._is_file = _is_regular_file(fd)
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        self.lost_lines = 0

    def send(self, data: bytes, date: str) -> None:  # noqa: ARG002  the same on every day
        self._drain(wait_secs=0)
        if len(self._backlog) + len(data) > MAX_BACKLOG_BYTES:
            self.lost_lines += data.count(b"\n")
            return
        self._backlog += data
        self._drain(wait_secs=0)

    def close(self, wait_secs: float) -> None:
        self._drain(wait_secs)
        self._drop_backlog()

    def _drain(self, wait_secs: float) -> None:
        deadline = time.monotonic() + wait_secs if wait_secs else 0
        while self._backlog and self._ready(deadline):
            try:
                written = os.write(self._fd, self._piece())
            except BlockingIOError:
                return
            except OSError:
                # The reader is gone or the disk is full; the next lines try again.
                self._drop_backlog()
                return
            del self._backlog[:written]

    def _ready(self, deadline: float) -> bool:
        if self._is_file:
            return True
        wait_secs = max(0.0, deadline - time.monotonic()) if deadline else 0
        return bool(self._poll.poll(wait_secs * 1000))

    def _piece(self) -> bytes:
        """What to write next: as many whole lines as a pipe takes at once, unmixed with other writers'."""
        if self._is_file or len(self._backlog) <= select.PIPE_BUF:
            return bytes(self._backlog)
        end = self._backlog.rfind(b"\n", 0, select.PIPE_BUF) + 1
        return bytes(self._backlog[: end or select.PIPE_BUF])

    def _drop_backlog(self) -> None:
        self.lost_lines += self._backlog.count(b"\n")
        self._backlog.clear()


class DailyFileOutput:
    """Lines to `smg.YYYY-MM-DD` in a directory, one file for each UTC day. Old files are the operator's."""

    __slots__ = ("_date", "_directory", "_fd", "lost_lines")

    def __init__(self, directory: str, date: str) -> None:
        """Make the directory if it is missing, and open the file of `date`.

        Raises:
            OSError: the directory cannot be made, or cannot be written.
        """
        self._directory = Path(directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._date = date
        self._fd: int | None = self._open(date)
        self.lost_lines = 0

    def send(self, data: bytes, date: str) -> None:
        try:
            fd = self._file_of(date) if data else -1
            while data:
                data = data[os.write(fd, data) :]
        except OSError:
            self.lost_lines += data.count(b"\n")

    def close(self, wait_secs: float = 0) -> None:  # noqa: ARG002  a file does not make anyone wait
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _file_of(self, date: str) -> int:
        if self._fd is None or date != self._date:
            self.close()
            self._date = date
            self._fd = self._open(date)
        return self._fd

    def _open(self, date: str) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return os.open(self._directory / f"{FILE_PREFIX}.{date}", flags, 0o640)


def _is_regular_file(fd: int) -> bool:
    try:
        return stat.S_ISREG(os.fstat(fd).st_mode)
    except OSError:
        return False
