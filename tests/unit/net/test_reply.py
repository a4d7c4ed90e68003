"""How an answer is followed by somebody who does not read it; reading it is tested where answers come from."""

import asyncio
import gc
import weakref

import pytest

from smg.errors import UpstreamError, UpstreamTimeout
from smg.net.http1.codec import ResponseHead
from smg.net.reply import Reply


class Connection:
    """A carrier that notes what is asked of it."""

    def __init__(self):
        self.relay_chunk = None
        self.aborted = 0

    def hold(self):
        pass

    def unhold(self):
        pass

    def abort(self):
        self.aborted += 1


class Watcher:
    def __init__(self):
        self.events = []

    def began(self):
        self.events.append("began")

    def lost(self, error):
        self.events.append(error)


BROKEN = UpstreamError("read_response_body_failed", "broken off")


@pytest.fixture
def connection():
    return Connection()


@pytest.fixture
def reply(connection):
    reply = Reply(ResponseHead(200, [], http10=False), connection)
    reply.watcher = Watcher()
    return reply


@pytest.fixture
def heard(reply):
    return reply.watcher.events


async def pump(reply, write, write_chunk=None):
    task = asyncio.ensure_future(reply.pump(write, write_chunk))
    await asyncio.sleep(0)
    return task


async def test_a_watcher_hears_of_the_first_piece_before_it_is_handed_on(reply, heard):
    written = []
    task = await pump(reply, lambda piece: written.append((piece, list(heard))))
    assert heard == []
    for piece in (b"a", b"b"):
        reply.feed(piece)
    reply.finish()
    await task
    assert written == [(b"a", ["began"]), (b"b", ["began"])]
    assert heard == ["began"]


async def test_pieces_that_were_there_already_are_the_first(reply, heard):
    written = []
    reply.feed(b"a")
    assert heard == []
    task = await pump(reply, written.append)
    assert (heard, written) == (["began"], [b"a"])
    reply.feed(b"b")
    reply.finish()
    await task
    assert heard == ["began"]


async def test_the_quick_way_of_chunks_opens_with_the_first_piece(reply, connection):
    def write_chunk(chunk, size):
        pass

    task = await pump(reply, lambda _: None, write_chunk)
    assert connection.relay_chunk is None
    reply.feed(b"a")
    assert connection.relay_chunk is write_chunk
    reply.finish()
    await task


async def test_without_a_watcher_it_is_open_at_once(reply, connection):
    def write_chunk(chunk, size):
        pass

    reply.watcher = None
    task = await pump(reply, lambda _: None, write_chunk)
    assert connection.relay_chunk is write_chunk
    reply.finish()
    await task


async def test_a_body_without_a_piece_never_begins(reply, heard):
    task = await pump(reply, lambda _: None)
    reply.finish()
    await task
    assert heard == []


async def test_an_answer_that_is_read_whole_does_not_begin(reply, heard):
    reply.feed(b"a")
    reply.finish()
    assert await reply.read(10) == b"a"
    assert heard == []


def test_an_answer_that_breaks_off_is_lost_once(reply, heard, connection):
    assert reply.broken is None
    reply.finish(BROKEN)
    assert reply.broken is BROKEN
    reply.finish(UpstreamError("call_upstream_timeout", "later"))
    reply.close()
    assert heard == [BROKEN]
    assert connection.aborted == 0  # it has ended by itself


def test_an_answer_that_is_given_up_is_lost_once(reply, heard, connection):
    reply.close()
    reply.finish(BROKEN)  # as its connection ends then
    reply.close()
    assert heard == [None]
    assert connection.aborted == 1


def test_a_complete_answer_is_not_lost(reply, heard, connection):
    reply.finish()
    reply.close()
    assert heard == []
    assert connection.aborted == 0


async def test_a_complete_body_can_be_replaced(reply):
    reply.feed(b"a")
    reply.feed(b"b")
    reply.finish()
    reply.rewrite(b"another")
    assert reply.take(10) == await reply.read(10) == b"another"
    assert reply.take(6) is None


@pytest.mark.parametrize("way", [lambda reply: reply.read(100), lambda reply: reply.pump(print)])
async def test_what_broke_an_answer_keeps_none_of_its_readers(reply, way):
    error = UpstreamTimeout("call_upstream_timeout", "late")
    reading = asyncio.ensure_future(way(reply))
    await asyncio.sleep(0)
    reply.finish(error)
    with pytest.raises(UpstreamTimeout, match="late") as caught:
        await reading
    assert caught.value.code == "call_upstream_timeout"
    assert error.__traceback__ is None


async def pumped(reply):
    """Read an answer as control calls do: by somebody who has the answer too."""
    pieces = []

    def write(piece, _answer=reply):
        pieces.append(piece)

    await reply.pump(write)
    return b"".join(pieces)


@pytest.mark.parametrize("way", [lambda reply: reply.read(100), pumped])
async def test_an_answer_that_was_waited_for_leaves_nothing_for_the_collector(way):
    connection = Connection()
    left = weakref.ref(connection)
    reply = Reply(ResponseHead(200, [], http10=False), connection)
    reading = asyncio.ensure_future(way(reply))
    await asyncio.sleep(0)
    gc.disable()
    try:
        reply.feed(b"a")
        reply.finish()
        assert await reading == b"a"
        del reply, reading, connection
        await asyncio.sleep(0)  # the loop holds them until this step is over
        assert left() is None
    finally:
        gc.enable()
