"""Where the answers of a fan-out wait for the last one: in memory, and beyond a bound in a file without a name.

The report cannot begin before all outcomes are known, and a fan-out may have any number of targets. So what it takes in
memory depends on the bound and on the calls under way, and not on the fleet.
"""

from __future__ import annotations

from dataclasses import dataclass
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Final, Self

from smg.telemetry.logs import get_logger

log = get_logger("smg_rl")

MAX_MEMORY_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Spooled:
    """Some bytes in a file."""

    file: IO[bytes]
    offset: int
    size: int

    def __len__(self) -> int:
        return self.size

    def read(self) -> bytes:
        """The bytes."""
        self.file.seek(self.offset)
        return self.file.read(self.size)


class Spool:
    """Keeps byte strings until it is closed."""

    def __init__(self, max_memory_bytes: int = MAX_MEMORY_BYTES) -> None:
        self._room = max_memory_bytes
        self._file: IO[bytes] | None = None
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def keep(self, data: bytes) -> bytes | Spooled:
        """Keep some bytes; what comes back has them, or knows where they are."""
        if len(data) <= self._room:
            self._room -= len(data)
            return data
        try:
            return self._write(data)
        except OSError as error:  # a full disk costs memory, and nobody's answer
            log.warning("an answer could not be put on disk", reason=error.strerror)
            return data

    def _write(self, data: bytes) -> Spooled:
        if self._file is None:
            self._file = TemporaryFile(buffering=0)  # noqa: SIM115  closed with the spool
        spooled = Spooled(self._file, self._size, len(data))
        self._file.seek(self._size)
        if self._file.write(data) != len(data):
            raise OSError(28, "the disk is full")
        self._size += len(data)
        return spooled
