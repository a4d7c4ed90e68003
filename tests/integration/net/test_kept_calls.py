"""Connections that are kept behind a call: used again while they are surely good, and not trusted with a second try."""

import asyncio
import socket

import pytest

from smg.errors import UpstreamError, UpstreamTimeout
from smg.net.address import address_of
from smg.net.calls import KEEP_SECS, MOST_KEPT, Calls
from smg.net.capture import CallLimits, Outgoing
from support.calls import capture

LIMITS = CallLimits(timeout_secs=5, connect_timeout_secs=5, max_bytes=1000, keep_secs=KEEP_SECS)
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@pytest.fixture
async def calls(until):
    calls = Calls()
    yield calls
    calls.close()
    assert calls.kept == 0


@pytest.fixture
def call(calls):
    """Call a worker."""

    def calling(worker, body=b"{}", *, method="POST", limits=LIMITS, **options):
        return capture(address_of(worker.url), Outgoing(method, "/op", (), body), limits, calls=calls, **options)

    return calling


async def test_calls_in_a_row_share_a_connection(start_worker, calls, call):
    worker = await start_worker()
    assert [(await call(worker, b"%d" % number)).body for number in range(3)] == [b"1:0", b"1:1", b"1:2"]
    assert (worker.connections, calls.kept) == (1, 1)
    assert {head for head, _ in worker.requests} == {
        b"POST /op HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-length: 1\r\n\r\n" % worker.port
    }


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_an_answer_may_come_in_pieces(start_worker, calls, call, answer, size):
    async def script(connection, number):
        while True:
            await connection.request()
            for start in range(0, len(answer), size):
                await connection.write(answer[start : start + size])
                await asyncio.sleep(0)

    worker = await start_worker(script)
    assert [(await call(worker)).body for _ in range(2)] == [b"ok", b"ok"]
    assert (worker.connections, calls.kept) == (1, 1)


async def test_no_answer_leaves_anything_to_the_next(start_worker, calls, call):
    async def script(connection, number):
        for head, body in (
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"258\r\n" + b"a" * 600 + b"\r\n0\r\n\r\n"),
            (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 600\r\n\r\n", b"b" * 600),
        ):
            await connection.request()
            for piece in (head, body[:300], body[300:]):
                await connection.write(piece)
                await asyncio.sleep(0.01)

    worker = await start_worker(script)
    answers = [await call(worker) for _ in range(3)]
    assert [(answer.body, answer.truncated) for answer in answers] == [
        (b"a" * 600, False),
        (b"", False),
        (b"b" * 600, False),
    ]
    assert worker.connections == 1


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("POST", b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"),
        ("POST", b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok"),
        ("POST", OK + b"more"),
        ("POST", b"HTTP/1.1 204 No Content\r\n\r\nmore"),
        ("POST", b"HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n" + b"x" * 1001),
        ("HEAD", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"),
    ],
)
async def test_a_connection_that_may_not_be_in_good_order_is_not_kept(start_worker, calls, call, until, method, answer):
    async def script(connection, number):
        await connection.request()
        await connection.write(answer)
        await connection.ended()

    worker = await start_worker(script)
    assert (await call(worker, b"", method=method)).status in {200, 204}
    assert calls.kept == 0
    await until(lambda: worker.ended == 1)


async def test_nor_is_one_whose_request_was_answered_before_it_was_taken(start_worker, calls, call, until):
    async def script(connection, number):
        await connection.request(body=False)
        await connection.write(OK)
        await connection.ended()

    worker = await start_worker(script, receive_bytes=4096)
    assert (await call(worker, b"x" * 20_000_000)).body == b"ok"
    assert calls.kept == 0
    await until(lambda: worker.ended == 1)


async def test_of_many_calls_at_a_time_few_connections_are_kept(start_worker, calls, call, until):
    everybody = asyncio.Barrier(5)

    async def script(connection, number):
        await connection.request()
        await everybody.wait()
        await connection.answer()
        await connection.ended()

    worker = await start_worker(script)
    await asyncio.gather(*(call(worker) for _ in range(5)))
    assert (worker.connections, calls.kept) == (5, MOST_KEPT)
    await until(lambda: worker.ended == 5 - MOST_KEPT)


async def test_where_none_may_be_kept_the_worker_is_told(start_worker, calls, call):
    async def script(connection, number):
        await connection.request()
        await connection.answer()
        await connection.ended()

    worker = await start_worker(script)
    await call(worker, limits=CallLimits(5, 5, 1000, keep_secs=0))
    assert calls.kept == 0
    assert b"\r\nconnection: close\r\n" in worker.requests[0][0]


async def test_one_that_is_not_used_ends_before_long(start_worker, calls, call, until):
    worker = await start_worker()
    await call(worker, limits=CallLimits(5, 5, 1000, keep_secs=0.05))
    assert calls.kept == 1
    await until(lambda: worker.open == calls.kept == 0)


class Engine:
    """An engine whose sockets do what they do at once, and not when the loop has a turn."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    async def serve(self, answer=OK):
        """Take one connection, read one request, answer it."""
        loop = asyncio.get_running_loop()
        connection, _ = await loop.sock_accept(self.listener)
        connection.setblocking(False)
        assert (await loop.sock_recv(connection, 65536)).endswith(b"{}")
        await loop.sock_sendall(connection, answer)
        return connection


@pytest.fixture
def engine():
    engine = Engine()
    yield engine
    engine.listener.close()


def resets(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()


def speaks(connection):
    connection.send(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")


@pytest.mark.parametrize("end", [socket.socket.close, resets, speaks])
async def test_one_that_the_engine_has_just_ended_is_not_used(engine, call, end):
    """The loop had no turn in which it could have heard of the end."""
    first, connection = await asyncio.gather(call(engine), engine.serve())
    end(connection)
    second, other = await asyncio.gather(call(engine), engine.serve())
    assert first == second
    connection.close()
    other.close()


async def test_an_engine_that_ends_one_early_gets_fresh_ones_for_a_while(start_worker, calls, call, until, monkeypatch):
    monkeypatch.setattr("smg.net.calls.SHUN_SECS", 0.1)

    async def script(connection, number):
        await connection.request()
        await connection.answer(b"%d" % number)
        if number > 1:
            await connection.ended()

    worker = await start_worker(script)
    assert (await call(worker)).body == b"1"
    await until(lambda: worker.open == calls.kept == 0)
    assert (await call(worker)).body == b"2"
    assert calls.kept == 0
    async with asyncio.timeout(5):
        while not calls.kept:
            await call(worker)


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("end", ["close", "reset"])
async def test_a_call_that_a_kept_connection_loses_is_not_made_again(start_worker, calls, call, method, end):
    async def script(connection, number):
        await connection.request()
        await connection.answer()
        await connection.request()
        if end == "reset":
            connection.reset()

    worker = await start_worker(script)
    await call(worker)
    with pytest.raises(UpstreamError, match="closed the connection before it answered"):
        await call(worker, method=method)
    assert (len(worker.requests), worker.connections, calls.kept) == (2, 1, 0)


async def test_connections_of_one_worker_are_no_others(start_worker, calls, call):
    one, other = await start_worker(), await start_worker()
    await call(one, key="one")
    await call(one, key="other")
    await call(other, key="one")  # it has moved
    assert (one.connections, other.connections) == (2, 1)
    calls.drop("other")
    assert calls.kept == 1
    await call(other, key="one")
    assert other.connections == 1


async def test_what_is_dropped_ends(start_worker, calls, call, until):
    worker = await start_worker()
    await call(worker)
    calls.drop("worker")
    await until(lambda: worker.open == calls.kept == 0)
    calls.drop("worker")


async def test_after_the_end_calls_can_be_made_and_nothing_is_kept(start_worker, calls, call, until):
    worker = await start_worker()
    await call(worker)
    calls.close()
    await until(lambda: worker.open == 0)
    await call(worker)
    await until(lambda: worker.open == 0)
    assert worker.connections == 2


@pytest.mark.parametrize("end", ["cancel", "deadline"])
async def test_a_call_that_is_given_up_ends_its_kept_connection(start_worker, calls, call, until, end):
    async def script(connection, number):
        await connection.request()
        await connection.answer()
        await connection.request()
        await connection.ended()

    worker = await start_worker(script)
    await call(worker)
    calling = asyncio.ensure_future(call(worker, limits=CallLimits(0.2 if end == "deadline" else 5, 5, 1000, 1)))
    await until(lambda: len(worker.requests) == 2)
    if end == "cancel":
        calling.cancel()
    (error,) = await asyncio.gather(calling, return_exceptions=True)
    assert isinstance(error, asyncio.CancelledError if end == "cancel" else UpstreamTimeout)
    await until(lambda: worker.ended == 1)
    assert (worker.connections, calls.kept) == (1, 0)


async def test_each_call_has_its_own_deadline(start_worker, call):
    async def script(connection, number):
        await connection.ended()

    worker = await start_worker(script)
    ended = []

    async def waiting(secs):
        with pytest.raises(UpstreamTimeout):
            await call(worker, limits=CallLimits(secs, 5, 1000))
        ended.append(secs)

    await asyncio.gather(*map(waiting, [0.3, 0.1, 0.2]))
    assert ended == [0.1, 0.2, 0.3]
