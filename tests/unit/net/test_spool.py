"""An upload waits in memory or in a file, reads back the same, and leaves nothing behind."""

import asyncio
import errno
import os
import threading

import pytest

from smg.errors import GatewayError
from smg.net import spool as room
from smg.net.spool import Spool
from support.nameless import nameless_files
from support.waiting import until

PIECES = [b"ab", memoryview(b"cde"), b"", b"f" * 20]
WHOLE = b"abcde" + b"f" * 20


@pytest.mark.parametrize("memory_bytes", [0, 4, 24, 25, 1000])
async def test_what_is_written_reads_back_from_memory_or_disk(memory_bytes):
    before = nameless_files()
    spool = Spool(memory_bytes)
    for piece in PIECES:
        await spool.write([piece])
    assert spool.size == len(WHOLE)
    assert (spool._fd >= 0) is (memory_bytes < len(WHOLE))
    found = [await spool.read(at, 7) for at in range(0, spool.size, 7)]
    assert b"".join(found) == WHOLE
    assert await spool.read(spool.size, 7) == b""
    spool.close()
    spool.close()
    await until(lambda: nameless_files() == before, "the file's end")


async def test_a_file_is_closed_only_after_the_thread_that_uses_it(monkeypatch):
    before = nameless_files()
    spool = Spool(0)
    await spool.write([b"x"])
    started, go = threading.Event(), threading.Event()

    def slow(fd, size, offset):
        started.set()
        go.wait()
        os.fstat(fd)
        return b"x"

    monkeypatch.setattr(room.os, "pread", slow)
    reading = asyncio.create_task(spool.read(0, 1))
    await until(started.is_set)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    spool.close()
    assert nameless_files() != before
    go.set()
    await until(lambda: nameless_files() == before, "the file's end")


async def test_a_disk_that_takes_no_more_is_a_fault_of_the_gateway(monkeypatch):
    spool = Spool(0)

    def full(fd, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(room.os, "write", full)
    with pytest.raises(GatewayError) as failed:
        await spool.write([b"x"])
    assert (failed.value.code, failed.value.status) == ("internal_error", 500)
    spool.close()


async def test_a_file_that_lost_bytes_is_noticed(monkeypatch):
    spool = Spool(0)
    await spool.write([b"x"])
    monkeypatch.setattr(room.os, "pread", lambda *_: b"")
    with pytest.raises(GatewayError):
        await spool.read(0, 1)
    spool.close()
