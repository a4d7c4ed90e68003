"""A request body arrives within bounds, for one reader or one sink, and its client is held back and let go in time."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.errors import GatewayError
from smg.net.body import UNREAD_BYTES, RequestBody

LIMIT = 4 * UNREAD_BYTES


class Client:
    """The connection that a body arrives on."""

    def __init__(self):
        self.held = False
        self.holds = 0
        self.invited = 0

    def hold(self):
        self.held = True
        self.holds += 1

    def unhold(self):
        self.held = False

    def invite(self):
        self.invited += 1


class Worker:
    """A sink that may fall behind after so many pieces."""

    def __init__(self, body=None, room=None):
        self.pieces = []
        self.done = 0
        self.errors = []
        self.body = body
        self.room = room

    def upload(self, piece):
        self.pieces.append(piece)
        if len(self.pieces) == self.room:
            self.body.hold()

    def upload_done(self):
        self.done += 1

    def upload_failed(self, error):
        self.errors.append(error.code)


def new_body(length=None, limit_bytes=LIMIT):
    client = Client()
    return RequestBody(client, length, limit_bytes, 0.0), client


async def begin_reading(body):
    reading = asyncio.ensure_future(body.read())
    await asyncio.sleep(0)
    return reading


async def code_of(awaitable):
    with pytest.raises(GatewayError) as caught:
        await awaitable
    return caught.value.code


async def test_a_body_that_has_arrived_is_read_at_once():
    body, client = new_body(5)
    body.put_whole(b"hello")
    assert body.complete
    assert await body.read() == b"hello"
    assert await body.read() == b"hello"
    assert client.invited == 0


async def test_an_empty_body_is_complete_from_the_start():
    body, _ = new_body(0)
    assert body.complete
    assert await body.read() == b""


async def test_a_reader_waits_for_the_last_byte_and_invites_the_client():
    body, client = new_body(4)
    body.feed(b"ab", 1.0)
    reading = await begin_reading(body)
    assert client.invited == 1
    assert body.wanted
    body.feed(b"cd", 2.0)
    await asyncio.sleep(0)
    assert not reading.done()
    body.finish()
    assert await reading == b"abcd"
    assert body.last_piece_at == 2.0


@given(st.lists(st.binary(min_size=1, max_size=8)), st.integers(0, 10))
def test_any_pieces_join_to_the_body_whenever_the_reader_comes(pieces, reader_comes):
    async def run():
        body, _ = new_body()
        reading = None
        for number, piece in enumerate(pieces):
            if number == reader_comes:
                reading = await begin_reading(body)
            body.feed(piece, 0.0)
        body.finish()
        return await (reading or body.read())

    assert asyncio.run(run()) == b"".join(pieces)


async def test_a_client_is_held_back_until_somebody_reads():
    body, client = new_body()
    body.feed(b"x" * UNREAD_BYTES, 0.0)
    assert not client.held
    body.feed(b"x", 0.0)
    assert client.held
    assert body.held
    reading = await begin_reading(body)
    assert not client.held
    body.feed(b"x" * UNREAD_BYTES, 0.0)
    assert not client.held
    body.finish()
    assert len(await reading) == 2 * UNREAD_BYTES + 1


async def test_a_held_client_is_let_go_when_its_body_is_complete():
    body, client = new_body()
    body.feed(b"x" * (UNREAD_BYTES + 1), 0.0)
    assert client.held
    body.finish()
    assert not client.held
    assert not body.held


async def test_a_cancelled_reader_leaves_the_client_held_back_again():
    body, client = new_body()
    body.feed(b"x" * (UNREAD_BYTES + 1), 0.0)
    reading = await begin_reading(body)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert not body.wanted
    body.feed(b"x", 0.0)
    assert client.held


async def test_the_stall_clock_starts_with_the_wait_for_more():
    body, _ = new_body()
    assert not body.wanted
    reading = await begin_reading(body)
    assert body.last_piece_at == pytest.approx(asyncio.get_running_loop().time(), abs=60)
    assert body.last_piece_at > 0
    body.finish()
    await reading


async def test_a_body_beyond_the_limit_is_refused_and_dropped():
    body, _ = new_body(limit_bytes=10)
    reading = await begin_reading(body)
    body.feed(b"x" * 10, 0.0)
    body.feed(b"x", 0.0)
    assert await code_of(reading) == "request_body_too_large"
    body.feed(b"x" * 100, 0.0)
    assert body._pieces == []


async def test_a_body_beyond_the_limit_is_refused_even_if_it_was_complete_before_the_reader_came():
    body, _ = new_body(limit_bytes=10)
    body.feed(b"x" * 11, 0.0)
    body.finish()
    for _ in range(2):
        assert await code_of(body.read()) == "request_body_too_large"


async def test_the_limit_is_inclusive():
    body, _ = new_body(limit_bytes=10)
    body.feed(b"x" * 10, 0.0)
    body.finish()
    assert len(await body.read()) == 10


async def test_the_first_failure_counts_and_a_complete_body_cannot_fail():
    body, _ = new_body()
    body.fail(GatewayError("request_body_stalled", "late"))
    body.fail(GatewayError("request_body_aborted", "left"))
    assert await code_of(body.read()) == "request_body_stalled"
    body, _ = new_body()
    body.feed(b"a", 0.0)
    body.finish()
    body.fail(GatewayError("request_body_aborted", "left"))
    assert await body.read() == b"a"


async def test_a_failure_keeps_none_of_its_readers():
    body, _ = new_body()
    error = GatewayError("request_body_aborted", "left")
    body.fail(error)
    assert await code_of(body.read()) == "request_body_aborted"
    assert error.__traceback__ is None


async def test_a_failure_wakes_the_reader():
    body, _ = new_body()
    reading = await begin_reading(body)
    body.fail(GatewayError("request_body_aborted", "left"))
    assert await code_of(reading) == "request_body_aborted"


def test_a_piped_body_goes_to_its_sink_from_the_first_piece_on():
    body, client = new_body()
    body.feed(b"a", 0.0)
    worker = Worker()
    body.pipe(worker, 5.0)
    assert body.piped
    assert body.wanted
    assert client.invited == 1
    assert body.last_piece_at == 5.0
    body.feed(b"b", 6.0)
    assert worker.pieces == [b"a", b"b"]
    assert worker.done == 0
    body.finish()
    assert worker.done == 1


def test_a_body_that_is_complete_is_piped_at_once():
    body, client = new_body(1)
    body.put_whole(b"a")
    worker = Worker()
    body.pipe(worker, 0.0)
    assert (worker.pieces, worker.done, client.invited) == ([b"a"], 1, 0)


def test_piping_lets_a_held_client_go():
    body, client = new_body()
    body.feed(b"x" * (UNREAD_BYTES + 1), 0.0)
    body.pipe(Worker(), 0.0)
    assert not client.held


def test_a_sink_that_falls_behind_with_the_first_pieces_keeps_its_hold():
    body, client = new_body()
    body.feed(b"x" * UNREAD_BYTES, 0.0)
    body.feed(b"x", 0.0)
    body.pipe(Worker(body, room=2), 0.0)
    assert client.held
    assert body.held
    body.unhold()
    assert not client.held


def test_a_sink_that_falls_behind_with_the_last_piece_leaves_no_hold():
    body, client = new_body()
    body.pipe(Worker(body, room=1), 0.0)
    body.feed(b"x", 0.0)
    assert client.held
    body.finish()
    assert not client.held


@pytest.mark.parametrize("before", [True, False])
def test_a_sink_hears_that_the_body_failed(before):
    body, _ = new_body()
    body.feed(b"a", 0.0)
    worker = Worker()
    error = GatewayError("request_body_stalled", "late")
    if before:
        body.fail(error)
    body.pipe(worker, 0.0)
    body.fail(error)
    body.feed(b"b", 0.0)
    body.finish()
    assert worker.errors == ["request_body_stalled"]
    assert worker.done == 0
    assert worker.pieces == ([] if before else [b"a"])


def test_a_piped_body_is_bounded_too():
    body, _ = new_body(limit_bytes=3)
    worker = Worker()
    body.pipe(worker, 0.0)
    body.feed(b"abc", 0.0)
    body.feed(b"d", 0.0)
    assert worker.pieces == [b"abc"]
    assert worker.errors == ["request_body_too_large"]


def test_without_its_sink_a_body_is_held_back_again():
    body, client = new_body()
    worker = Worker()
    body.pipe(worker, 0.0)
    body.unpipe()
    assert not body.wanted
    body.feed(b"x" * (UNREAD_BYTES + 1), 0.0)
    body.finish()
    assert client.holds == 1
    assert worker.pieces == []
    assert worker.done == 0


# --- piece by piece


async def test_pieces_are_read_as_they_come():
    body, client = new_body()
    reading = asyncio.create_task(body.read_pieces())
    await asyncio.sleep(0)
    assert client.invited == 1
    assert body.wanted
    body.feed(b"a", 1.0)
    body.feed(b"b", 1.0)
    assert await reading == [b"a", b"b"]
    assert not body.wanted
    body.feed(b"c", 2.0)
    body.finish()
    assert await body.read_pieces() == [b"c"]
    assert await body.read_pieces() == []


async def test_between_two_pieces_the_client_is_held_back_by_what_is_unread_and_not_by_what_was():
    body, client = new_body()
    piece = b"x" * UNREAD_BYTES
    body.feed(piece, 1.0)
    assert not client.held
    assert await body.read_pieces() == [piece]
    body.feed(piece, 1.0)
    assert not client.held
    body.feed(b"x", 1.0)
    assert client.held
    assert await body.read_pieces() == [piece, b"x"]
    assert not client.held


async def test_a_reader_of_pieces_hears_of_a_body_that_fails():
    body, _ = new_body()
    reading = asyncio.create_task(body.read_pieces())
    await asyncio.sleep(0)
    body.fail(GatewayError("request_body_aborted", "x"))
    with pytest.raises(GatewayError):
        await reading
    with pytest.raises(GatewayError):
        await body.read_pieces()


async def test_a_whole_body_is_one_piece():
    body, _ = new_body(3)
    body.put_whole(b"abc")
    assert await body.read_pieces() == [b"abc"]
    assert await body.read_pieces() == []
