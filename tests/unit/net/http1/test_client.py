"""A connection to a worker, fed by hand: answers however they are split, and every way an exchange can end."""

import asyncio
import gc
import weakref

import pytest

from smg.errors import GatewayError, UpstreamError, UpstreamTimeout
from smg.net.body import RequestBody
from smg.net.http1.client import LostBeforeAnswer, UpstreamConnection
from smg.net.http1.codec import MAX_HEAD_BYTES
from smg.net.reply import UNREAD_BYTES

REQUEST = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"
LIMIT = 1 << 20


class Owner:
    def __init__(self):
        self.released = []
        self.forgotten = set()

    def release(self, connection):
        self.released.append(connection)

    def forget(self, connection):
        self.forgotten.add(connection)


class Client:
    """Whose body is piped to the worker."""

    def __init__(self):
        self.held = False

    def hold(self):
        self.held = True

    def unhold(self):
        self.held = False

    def invite(self): ...


class Rig:
    def __init__(self, loop, new_wire):
        self.loop = loop
        self.new_wire = new_wire
        self.connect()

    def connect(self):
        self.owner = Owner()
        self.wire = self.new_wire()
        self.connection = UpstreamConnection(self.owner, self.loop)
        self.connection.connection_made(self.wire)

    async def send(self, body=None, deadline=0.0):
        sending = asyncio.ensure_future(self.connection.send(REQUEST, deadline, body))
        await asyncio.sleep(0)
        return sending

    def feed(self, *pieces):
        for piece in pieces:
            if self.wire.closing:
                return
            self.connection.data_received(piece)

    def lose(self, error=None):
        self.wire.closing = True
        self.connection.connection_lost(error)

    def end(self):
        """The worker ends its side."""
        assert not self.connection.eof_received()
        self.lose()

    @property
    def kept(self):
        return self.owner.released[-1:] == [self.connection] and not self.wire.closing


@pytest.fixture
async def rig(new_wire, calm_loop):
    return Rig(calm_loop, new_wire)


def bytewise(raw):
    return [raw[n : n + 1] for n in range(len(raw))]


def answer(*lines, status="200 OK", version="1.1"):
    return "\r\n".join([f"HTTP/{version} {status}", *lines, "", ""]).encode()


async def failure(awaitable, kind=UpstreamError):
    with pytest.raises(kind) as caught:
        await awaitable
    return caught.value.code


SIZED = answer("content-length: 5") + b"hello"
CHUNKED = answer("transfer-encoding: chunked") + b"2\r\nhe\r\n3;x\r\nllo\r\n0\r\nA: b\r\n\r\n"

# What the worker sends, the status and body it means, and whether the connection can be kept.
ANSWERS = {
    "sized": (SIZED, 200, b"hello", True),
    "empty": (answer("content-length: 0"), 200, b"", True),
    "chunked": (CHUNKED, 200, b"hello", True),
    "chunked and empty": (answer("transfer-encoding: chunked") + b"0\r\n\r\n", 200, b"", True),
    "no content": (answer(status="204 No Content"), 204, b"", True),
    "not modified with a length": (answer("content-length: 5", status="304 Not Modified"), 304, b"", True),
    "no content though chunked": (answer("transfer-encoding: chunked", status="204 No Content"), 204, b"", True),
    "after interim answers": (
        answer(status="100 Continue") + answer("link: a", status="103 Early Hints") + SIZED,
        200,
        b"hello",
        True,
    ),
    "told to close": (answer("connection: close", "content-length: 5") + b"hello", 200, b"hello", False),
    "old": (answer("content-length: 5", version="1.0") + b"hello", 200, b"hello", False),
    "old and kept": (
        answer("connection: keep-alive", "content-length: 5", version="1.0") + b"hello",
        200,
        b"hello",
        True,
    ),
    "both framings": (
        answer("content-length: 1", "transfer-encoding: chunked") + b"5\r\nhello\r\n0\r\n\r\n",
        200,
        b"hello",
        False,
    ),
}


@pytest.mark.parametrize(("raw", "status", "body", "kept"), ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("split", [False, True])
async def test_an_answer_is_the_same_whole_and_byte_by_byte(rig, raw, status, body, kept, split):
    sending = await rig.send()
    assert rig.wire.take() == REQUEST
    rig.feed(*(bytewise(raw) if split else [raw]))
    reply = await sending
    assert reply.status == status
    assert reply.take(LIMIT) == body
    assert await reply.read(LIMIT) == body
    assert rig.kept is kept
    assert rig.wire.aborted is not kept


@pytest.mark.parametrize("raw", [SIZED, CHUNKED, answer("content-length: 0"), answer(status="204 No Content")])
async def test_bytes_after_an_answer_end_the_connection(rig, raw):
    sending = await rig.send()
    rig.feed(raw + b"H")
    assert (await sending).complete
    assert rig.wire.aborted
    assert rig.owner.released == []


async def test_a_worker_that_speaks_unasked_is_cut_off(rig):
    sending = await rig.send()
    rig.feed(SIZED)
    await sending
    rig.feed(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    assert rig.wire.aborted
    assert rig.connection.broken
    assert rig.connection in rig.owner.forgotten


async def test_one_connection_serves_one_exchange_after_the_other(rig):
    for raw, _, body, kept in ANSWERS.values():
        if kept:
            sending = await rig.send()
            rig.feed(raw)
            assert await (await sending).read(LIMIT) == body
    assert len(rig.owner.released) == sum(kept for *_, kept in ANSWERS.values())


@pytest.mark.parametrize("split", [False, True])
async def test_a_body_may_end_with_its_connection(rig, split):
    sending = await rig.send()
    raw = answer("content-type: text/plain") + b"hello"
    rig.feed(*(bytewise(raw) if split else [raw]))
    reply = await sending
    assert reply.take(LIMIT) is None
    reading = asyncio.ensure_future(reply.read(LIMIT))
    await asyncio.sleep(0)
    rig.end()
    assert await reading == b"hello"
    assert rig.owner.released == []


async def test_a_reset_is_no_end_of_a_body(rig):
    sending = await rig.send()
    rig.feed(answer() + b"hello")
    reply = await sending
    rig.lose(ConnectionResetError())
    assert await failure(reply.read(LIMIT)) == "read_response_body_failed"


async def test_a_body_that_was_given_up_does_not_become_complete(rig):
    sending = await rig.send()
    rig.feed(answer() + b"hello")
    reply = await sending
    reply.close()
    rig.lose()
    assert not reply.complete
    assert rig.wire.aborted


# --- answers that break

CUT = {
    "in a sized body": answer("content-length: 5") + b"hell",
    "before a sized body": answer("content-length: 5"),
    "in a chunk": answer("transfer-encoding: chunked") + b"5\r\nhel",
    "after a chunk": answer("transfer-encoding: chunked") + b"5\r\nhello\r\n",
    "in the trailers": answer("transfer-encoding: chunked") + b"0\r\nA: b\r\n",
}


@pytest.mark.parametrize("raw", CUT.values(), ids=CUT)
@pytest.mark.parametrize("waiting", [False, True])
@pytest.mark.parametrize("error", [None, ConnectionResetError()])
async def test_an_answer_cut_short_is_a_failure(rig, raw, waiting, error):
    sending = await rig.send()
    rig.feed(raw)
    reply = await sending
    if waiting:
        reading = asyncio.ensure_future(reply.read(LIMIT))
        await asyncio.sleep(0)
        rig.lose(error)
    else:
        rig.lose(error)
        reading = reply.read(LIMIT)
    assert await failure(reading) == "read_response_body_failed"
    assert rig.connection in rig.owner.forgotten


@pytest.mark.parametrize("raw", [b"H", b"HTTP/1.1 200 OK\r\ncontent-le"])
async def test_a_head_cut_short_is_a_failure_that_must_not_be_repeated(rig, raw):
    sending = await rig.send()
    rig.feed(raw)
    rig.lose()
    with pytest.raises(UpstreamError) as caught:
        await sending
    assert not isinstance(caught.value, LostBeforeAnswer)


async def test_a_connection_lost_before_the_first_byte_says_so(rig):
    sending = await rig.send()
    rig.lose(ConnectionResetError())
    with pytest.raises(LostBeforeAnswer):
        await sending
    with pytest.raises(LostBeforeAnswer):
        await rig.connection.send(REQUEST, 0.0)


async def test_a_failed_exchange_leaves_nothing_for_the_collector(rig):
    sending = await rig.send()
    rig.lose()
    gc.disable()
    try:
        try:
            await sending
        except LostBeforeAnswer as error:
            left = weakref.ref(error)
        del sending
        await asyncio.sleep(0)  # the loop holds it until this step is over
        assert left() is None
    finally:
        gc.enable()


async def test_after_an_interim_answer_the_request_counts_as_received(rig):
    rig.connection.reused = True
    sending = await rig.send()
    rig.feed(answer(status="103 Early Hints"))
    rig.lose()
    assert await failure(sending) == "call_upstream_request_error"
    assert not rig.connection.reused


GARBAGE = {
    "another protocol": b"SSH-2.0-OpenSSH\r\n\r\n",
    "zeros": b"\0" * 50 + b"\r\n\r\n",
    "no status": b"HTTP/1.1 abc\r\n\r\n",
    "head without end": b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * (MAX_HEAD_BYTES // 6),
    "huge head": b"HTTP/1.1 200 OK\r\nA: " + b"b" * MAX_HEAD_BYTES + b"\r\n\r\n",
    "lengths that differ": answer("content-length: 1", "content-length: 2") + b"ab",
    "unknown coding": answer("transfer-encoding: gzip"),
    "another protocol from here on": answer(status="101 Switching Protocols"),
}


@pytest.mark.parametrize("raw", GARBAGE.values(), ids=GARBAGE)
async def test_garbage_instead_of_a_head_is_a_failure(rig, raw):
    sending = await rig.send()
    rig.feed(raw)
    assert await failure(sending) == "call_upstream_request_error"
    assert rig.wire.aborted


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("chunk", [b"not-hex\r\n", b"5\r\nhello!\r\n"])
async def test_garbage_in_the_body_is_a_failure_even_if_it_came_with_the_head(rig, chunk, together):
    sending = await rig.send()
    head = answer("transfer-encoding: chunked")
    rig.feed(*([head + chunk] if together else [head, chunk]))
    async with asyncio.timeout(5):
        reply = await sending
        assert await failure(reply.read(LIMIT)) == "call_upstream_request_error"
    assert rig.wire.aborted


# --- bounds


@pytest.mark.parametrize("framing", ["content-length: 11", "transfer-encoding: chunked"])
@pytest.mark.parametrize("waiting", [True, False])
async def test_an_answer_beyond_the_limit_is_refused_and_cut(rig, framing, waiting):
    sending = await rig.send()
    piece = b"x" * 11 if "length" in framing else b"b\r\n" + b"x" * 11 + b"\r\n"
    rig.feed(answer(framing))
    reply = await sending
    if waiting:
        reading = asyncio.ensure_future(reply.read(10))
        await asyncio.sleep(0)
        rig.feed(piece)
    else:
        rig.feed(piece)
        assert reply.take(10) is None
        reading = reply.read(10)
    assert await failure(reading) == "upstream_response_too_large"
    assert rig.wire.aborted is not reply.complete


async def test_an_announced_excess_is_refused_before_it_comes(rig):
    sending = await rig.send()
    rig.feed(answer("content-length: 11"))
    assert await failure((await sending).read(10)) == "upstream_response_too_large"
    assert rig.wire.aborted


async def test_the_limit_is_inclusive(rig):
    sending = await rig.send()
    rig.feed(answer("content-length: 10"))
    reply = await sending
    reading = asyncio.ensure_future(reply.read(10))
    await asyncio.sleep(0)
    rig.feed(b"x" * 10)
    assert await reading == b"x" * 10
    assert rig.kept


async def test_an_answer_nobody_reads_is_held_back_and_let_go_by_its_reader(rig):
    sending = await rig.send()
    rig.feed(answer("content-length: %d" % (2 * UNREAD_BYTES)), b"x" * UNREAD_BYTES)
    reply = await sending
    assert rig.wire.reading
    rig.feed(b"x")
    assert not rig.wire.reading
    reading = asyncio.ensure_future(reply.read(LIMIT))
    await asyncio.sleep(0)
    assert rig.wire.reading
    rig.feed(b"x" * (UNREAD_BYTES - 1))
    assert len(await reading) == 2 * UNREAD_BYTES
    assert rig.kept
    assert rig.wire.reading


# --- pumping


async def pump(reply, write):
    pumping = asyncio.ensure_future(reply.pump(write))
    await asyncio.sleep(0)
    return pumping


async def test_pieces_are_pumped_as_they_come_and_then_the_connection_is_kept(rig):
    sending = await rig.send()
    rig.feed(answer("transfer-encoding: chunked") + b"1\r\na\r\n")
    reply = await sending
    got = []
    pumping = await pump(reply, got.append)
    rig.feed(b"1\r\nb\r\n", b"1\r\n", b"c\r\n1\r\nd\r\n")
    assert got[:2] == [b"a", b"b"]
    assert b"".join(got) == b"abcd"
    assert not pumping.done()
    rig.feed(b"0\r\n\r\n")
    await pumping
    assert rig.kept


async def test_a_complete_answer_is_pumped_without_waiting(rig):
    sending = await rig.send()
    rig.feed(SIZED)
    got = []
    await (await sending).pump(got.append)
    assert got == [b"hello"]


async def test_a_stream_that_breaks_gives_what_came_and_then_fails(rig):
    sending = await rig.send()
    rig.feed(CUT["in a chunk"])
    reply = await sending
    rig.lose()
    got = []
    assert await failure(reply.pump(got.append)) == "read_response_body_failed"
    assert got == [b"hel"]


async def test_the_client_sets_the_pace_of_a_stream(rig):
    sending = await rig.send()
    rig.feed(answer("content-length: 100"))
    reply = await sending
    pumping = await pump(reply, lambda piece: reply.hold())
    assert rig.wire.reading
    rig.feed(b"x" * 10)
    assert not rig.wire.reading
    reply.unhold()
    assert rig.wire.reading
    rig.feed(b"x" * 90)
    await pumping
    assert rig.kept
    assert rig.wire.reading


async def test_a_client_that_falls_behind_with_the_first_pieces_keeps_its_hold(rig):
    sending = await rig.send()
    rig.feed(answer("transfer-encoding: chunked") + b"1\r\na\r\n")
    reply = await sending
    pumping = await pump(reply, lambda piece: reply.hold())
    assert not rig.wire.reading
    reply.unhold()
    assert rig.wire.reading
    rig.feed(b"0\r\n\r\n")
    await pumping


async def test_a_client_that_is_behind_before_the_pump_starts_keeps_its_hold(rig):
    sending = await rig.send()
    rig.feed(answer("transfer-encoding: chunked"))
    reply = await sending
    reply.hold()
    pumping = await pump(reply, lambda piece: None)
    assert not rig.wire.reading
    reply.unhold()
    rig.feed(b"0\r\n\r\n")
    await pumping


async def test_the_pump_lets_an_answer_go_that_was_held_unread(rig):
    sending = await rig.send()
    rig.feed(answer("content-length: %d" % (2 * UNREAD_BYTES)), b"x" * (UNREAD_BYTES + 1))
    assert not rig.wire.reading
    pumping = await pump(await sending, lambda piece: None)
    assert rig.wire.reading
    rig.feed(b"x" * (UNREAD_BYTES - 1))
    await pumping


async def test_a_reply_that_is_over_does_not_touch_its_connection_any_more(rig):
    sending = await rig.send()
    rig.feed(SIZED)
    reply = await sending
    again = await rig.send()
    rig.feed(answer("content-length: 5"))
    second = await again
    second.hold()
    reply.unhold()
    await reply.pump(lambda piece: None)
    assert not rig.wire.reading
    second.unhold()
    reply.hold()
    reply.close()
    assert rig.wire.reading
    rig.feed(b"hello")
    assert await second.read(LIMIT) == b"hello"


# --- deadlines and cancellation


async def test_the_deadline_covers_head_and_body(rig):
    sending = await rig.send(deadline=50.0)
    rig.connection.expire(50.0)
    assert not sending.done()
    rig.connection.expire(50.1)
    assert await failure(sending, UpstreamTimeout) == "call_upstream_timeout"
    assert rig.wire.aborted
    rig.connect()
    sending = await rig.send(deadline=50.0)
    rig.feed(answer("content-length: 5"))
    reply = await sending
    pumping = await pump(reply, lambda piece: None)
    rig.connection.expire(50.1)
    assert await failure(pumping, UpstreamTimeout) == "call_upstream_timeout"
    assert rig.wire.aborted


async def test_an_exchange_that_is_over_has_no_deadline(rig):
    sending = await rig.send(deadline=50.0)
    rig.feed(SIZED)
    await sending
    rig.connection.expire(1000.0)
    assert rig.kept


async def test_cancelling_ends_the_connection(rig):
    sending = await rig.send()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    assert rig.wire.aborted
    assert rig.connection in rig.owner.forgotten
    rig.lose()


@pytest.mark.parametrize("order", ["answer first", "cancelled first"])
async def test_cancelling_too_late_does_not_cut_the_next_exchange(rig, order):
    sending = await rig.send()
    steps = [lambda: rig.feed(SIZED), sending.cancel]
    for step in steps if order == "answer first" else steps[::-1]:
        step()
    if rig.kept:
        following = asyncio.ensure_future(rig.connection.send(REQUEST, 0.0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        rig.feed(SIZED)
        assert await (await following).read(LIMIT) == b"hello"
    assert rig.kept or rig.wire.aborted
    await asyncio.gather(sending, return_exceptions=True)
    assert sending.cancelled()


@pytest.mark.parametrize("order", ["answer first", "cancelled first"])
async def test_cancelling_while_the_head_comes_ends_the_connection(rig, order):
    sending = await rig.send()
    steps = [lambda: rig.feed(answer("content-length: 5")), sending.cancel]
    for step in steps if order == "answer first" else steps[::-1]:
        step()
    await asyncio.gather(sending, return_exceptions=True)
    assert sending.cancelled()
    assert rig.wire.aborted


async def test_cancelling_while_the_connection_fails_is_quiet(rig):
    sending = await rig.send()
    rig.lose()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    assert sending.cancelled()


async def test_an_idle_connection_that_ends_is_forgotten_at_once(rig):
    sending = await rig.send()
    rig.feed(SIZED)
    await sending
    rig.connection.eof_received()
    assert rig.connection.broken
    assert rig.connection in rig.owner.forgotten


# --- a body that is piped


def piped(length=10):
    client = Client()
    return RequestBody(client, length, LIMIT, 0.0), client


async def test_a_piped_body_follows_its_head(rig):
    body, _ = piped()
    body.feed(b"hello", 0.0)
    sending = await rig.send(body)
    assert rig.wire.take() == REQUEST + b"hello"
    body.feed(b"world", 0.0)
    body.finish()
    assert rig.wire.take() == b"world"
    rig.feed(SIZED)
    assert (await sending).complete
    assert rig.kept


async def test_the_worker_sets_the_pace_of_a_piped_body(rig):
    body, client = piped()
    sending = await rig.send(body)
    rig.connection.pause_writing()
    assert client.held
    assert body.held
    body.last_piece_at = 0.0
    rig.connection.resume_writing()
    assert not client.held
    assert body.last_piece_at > 0
    rig.connection.pause_writing()
    body.feed(b"x" * 10, 0.0)
    body.finish()
    assert not client.held
    rig.connection.resume_writing()
    rig.feed(SIZED)
    await sending


async def test_an_early_answer_ends_the_upload_and_the_connection(rig):
    body, _ = piped()
    sending = await rig.send(body)
    rig.feed(SIZED)
    reply = await sending
    assert await reply.read(LIMIT) == b"hello"
    assert not body.piped
    assert rig.wire.aborted
    rig.wire.written.clear()
    body.feed(b"x" * 5, 0.0)
    assert rig.wire.take() == b""


async def test_an_early_head_does_not_end_the_upload(rig):
    body, _ = piped()
    sending = await rig.send(body)
    rig.wire.take()
    rig.feed(answer("content-length: 5"))
    reply = await sending
    body.feed(b"x" * 10, 0.0)
    body.finish()
    assert rig.wire.take() == b"x" * 10
    rig.feed(b"hello")
    assert await reply.read(LIMIT) == b"hello"
    assert rig.kept


@pytest.mark.parametrize("when", ["before", "during"])
async def test_a_piped_body_that_fails_fails_the_exchange(rig, when):
    body, _ = piped()
    error = GatewayError("request_body_stalled", "late")
    if when == "before":
        body.fail(error)
    sending = await rig.send(body)
    body.fail(error)
    assert await failure(sending, GatewayError) == "request_body_stalled"
    assert rig.wire.aborted


async def test_a_piped_body_that_fails_breaks_an_answer_under_way(rig):
    body, _ = piped()
    sending = await rig.send(body)
    rig.feed(answer("content-length: 5"))
    reply = await sending
    body.fail(GatewayError("request_body_aborted", "left"))
    assert await failure(reply.read(LIMIT)) == "request_body_aborted"


async def test_a_worker_lost_during_an_upload_lets_the_body_go(rig):
    body, _ = piped()
    sending = await rig.send(body)
    rig.lose(BrokenPipeError())
    with pytest.raises(LostBeforeAnswer):
        await sending
    assert not body.piped
    body.feed(b"x", 0.0)


async def test_a_connection_with_bytes_unsent_is_not_kept(rig):
    sending = await rig.send()
    rig.connection.pause_writing()
    rig.feed(SIZED)
    await sending
    assert rig.wire.aborted


@pytest.mark.parametrize(
    ("head", "last"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n", b"{}{"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"?"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"0\r\n\r\n?"),
    ],
)
async def test_an_answer_that_spoils_its_connection_spoils_none_that_is_headed_alike(rig, head, last):
    good = last[:-1]
    for body, kept in ((good, True), (good, True), (last, False), (good, True)):
        rig.connect()
        sending = await rig.send()
        rig.feed(head + body)
        assert await (await sending).read(LIMIT) == (good if b"length" in head else b"")
        assert rig.kept is kept
