"""Where bytes wait that cannot be sent yet: in memory while they are few, then in a temporary file without a name.

The file is written and read in pieces, by threads, so that a slow disk holds up nobody else. It is gone as soon as it
is closed, and with the process whatever happens to that.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

from smg.errors import GatewayError
from smg.telemetry.logs import get_logger

log = get_logger("smg.net")

# Threads of its own: others, names that are looked up among them, must not wait for a disk.
_disk = ThreadPoolExecutor(4, thread_name_prefix="smg-spool")
# Up to here a file would cost more than the memory is worth.
MEMORY_BYTES: Final = 1024 * 1024

T = TypeVar("T")


class Spool:
    """The bytes of one upload, or of one report. One call at a time; `close` may come at any moment."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self.size = 0
        self._memory_bytes = memory_bytes
        self._held = bytearray()
        self._fd = -1
        self._job: asyncio.Future[Any] | None = None
        self._closed = False

    async def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Append; the caller waits until the pieces are taken. Raises GatewayError when the disk does not take them."""
        size = sum(map(len, pieces))
        self.size += size
        if self._fd < 0 and self.size <= self._memory_bytes:
            for piece in pieces:
                self._held += piece
        elif size:
            await self._in_thread(partial(self._store, pieces))

    async def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`, at least one before the end. Raises GatewayError."""
        if self._fd < 0:
            return bytes(memoryview(self._held)[offset : offset + size])
        piece = await self._in_thread(partial(os.pread, self._fd, size, offset))
        if not piece and offset < self.size:
            raise _failure("it lost bytes")
        return piece

    def close(self) -> None:
        """Give everything up; a read or write under way ends first, unheard."""
        if self._closed:
            return
        self._closed = True
        if self._job is not None and not self._job.done():
            self._job.add_done_callback(lambda _: self._discard())
        else:
            self._discard()

    def _store(self, pieces: Sequence[bytes | memoryview]) -> None:
        if self._fd < 0:
            with tempfile.TemporaryFile(buffering=0) as file:
                self._fd = os.dup(file.fileno())  # a number has no finalizer that could close it under a thread
            _write_all(self._fd, self._held)
            self._held = bytearray()
        for piece in pieces:
            _write_all(self._fd, piece)

    def _discard(self) -> None:
        self._held = bytearray()
        fd, self._fd = self._fd, -1
        if fd >= 0:
            # Freeing a large file takes its time.
            asyncio.get_running_loop().run_in_executor(_disk, os.close, fd)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        assert not self._closed
        job = asyncio.get_running_loop().run_in_executor(_disk, work)
        self._job = job
        try:
            return await asyncio.shield(job)  # a thread cannot be cancelled, so its end must stay visible
        except OSError as error:
            raise _failure(error.strerror or type(error).__name__) from error


def _write_all(fd: int, data: bytes | bytearray | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _failure(reason: str) -> GatewayError:
    log.error("a temporary file cannot be used", folder=tempfile.gettempdir(), reason=reason)
    return GatewayError("internal_error", "the gateway could not keep the upload")
