"""A kept body is sent in order, at the sink's pace, and stops when nobody wants it any more."""

import asyncio

import pytest

from smg.errors import GatewayError
from smg.net.spool import Spool
from smg.net.upload import PIECE_BYTES, SpooledUpload
from support.waiting import until

SIZE = 5 * PIECE_BYTES + 1


class Worker:
    """A sink that holds after every piece, if it is slow."""

    def __init__(self, upload, slow=False):
        self.upload_ = upload
        self.slow = slow
        self.data = b""
        self.pieces = 0
        self.done = 0
        self.errors = []

    def upload(self, piece):
        self.pieces += 1
        self.data += piece
        if self.slow:
            self.upload_.hold()

    def upload_done(self):
        self.done += 1

    def upload_failed(self, error):
        self.errors.append(error.code)


@pytest.fixture(params=[0, 10 * SIZE], ids=["disk", "memory"])
async def upload(request):
    spool = Spool(request.param)
    await spool.write([bytes(SIZE)])
    made = SpooledUpload(b"text/x", b"<", spool, b">")
    yield made
    made.close()


async def test_all_of_it_is_sent_with_the_length_it_says(upload):
    worker = Worker(upload)
    upload.pipe(worker, 0.0)
    assert upload.piped
    await until(lambda: worker.done)
    assert worker.data == b"<" + bytes(SIZE) + b">"
    assert upload.length == len(worker.data)
    assert not upload.piped


async def test_a_slow_worker_gets_a_piece_at_a_time(upload):
    worker = Worker(upload, slow=True)
    upload.pipe(worker, 0.0)
    sent = 0
    while not worker.done:
        await until(lambda seen=sent: worker.pieces > seen or worker.done)
        for _ in range(5):
            await asyncio.sleep(0)
        assert worker.pieces <= sent + 2  # the closing bytes wait for nobody
        sent = worker.pieces
        upload.unhold()
    assert worker.data == b"<" + bytes(SIZE) + b">"


async def test_who_wants_no_more_gets_no_more(upload):
    worker = Worker(upload, slow=True)
    upload.pipe(worker, 0.0)
    await until(lambda: worker.pieces)
    upload.unpipe()
    upload.unhold()
    await asyncio.sleep(0.01)
    assert (worker.pieces, worker.done, worker.errors) == (1, 0, [])


async def test_it_can_be_sent_once_more_from_its_beginning(upload):
    first, second = Worker(upload, slow=True), Worker(upload)
    upload.pipe(first, 0.0)
    await until(lambda: first.pieces)
    upload.unpipe()
    upload.pipe(second, 0.0)
    await until(lambda: second.done)
    assert second.data == b"<" + bytes(SIZE) + b">"


async def test_what_cannot_be_read_back_fails_the_call(upload, monkeypatch):
    async def lose(offset, size):
        raise GatewayError("internal_error", "lost")

    monkeypatch.setattr(upload._spool, "read", lose)
    worker = Worker(upload)
    upload.pipe(worker, 0.0)
    await until(lambda: worker.errors)
    assert worker.errors == ["internal_error"]
