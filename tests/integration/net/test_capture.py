"""One call, a connection of its own, one deadline, and as much of the answer as may be kept."""

import asyncio
import socket

import pytest

from smg.errors import UpstreamError, UpstreamTimeout
from smg.net.address import address_of
from smg.net.calls import Calls
from smg.net.capture import CallLimits, Captured, Outgoing
from support.calls import capture

NOTHING = Outgoing("POST", "/op")
LIMITS = CallLimits(timeout_secs=5, connect_timeout_secs=5, max_bytes=1000)


def call(worker, body=b"", limits=LIMITS, *, method="POST", **options):
    return capture(address_of(worker.url), Outgoing(method, "/op?a", [(b"x-a", b"b")], body), limits, **options)


def says(data):
    """A worker that answers with these bytes and waits for the end."""

    async def script(connection, number):
        await connection.request()
        await connection.write(data)
        await connection.ended()

    return script


async def test_an_answer_is_captured_with_its_kind(start_worker, until):
    worker = await start_worker(says(b"HTTP/1.1 404 No\r\ncontent-type: x/y\r\ncontent-length: 2\r\n\r\nok"))
    assert await call(worker, b"hello") == Captured(404, b"x/y", b"ok", truncated=False)
    head = b"POST /op?a HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nconnection: close\r\nx-a: b\r\ncontent-length: 5\r\n\r\n"
    assert worker.requests == [(head % worker.port, b"hello")]
    await until(lambda: worker.ended == 1)


@pytest.mark.parametrize(
    ("method", "body", "length"),
    [("GET", b"", None), ("HEAD", b"", None), ("POST", b"", b"0"), ("GET", b"{}", b"2"), ("POST", b"{}", b"2")],
)
async def test_only_what_could_have_a_body_says_that_it_has_none(start_worker, method, body, length):
    worker = await start_worker()
    await call(worker, body, method=method)
    ((head, received),) = worker.requests
    assert (b"content-length" in head) is (length is not None)
    assert length is None or head.endswith(b"\r\ncontent-length: %b\r\n\r\n" % length)
    assert received == body


async def test_every_call_has_a_connection_of_its_own(start_worker, until):
    worker = await start_worker()
    body = b"x" * 500
    answers = await asyncio.gather(*(call(worker, body) for _ in range(5)))
    assert {answer.body.partition(b":")[2] for answer in answers} == {body}
    assert worker.connections == 5
    await until(lambda: worker.open == 0)


async def test_a_large_body_arrives_whole_at_a_worker_that_reads_slowly(start_worker):
    body = bytes(range(256)) * 20_000

    async def script(connection, number):
        await asyncio.sleep(0.05)
        await connection.request()
        await connection.answer()

    worker = await start_worker(script, receive_bytes=4096)
    assert (await call(worker, body)).body == b"ok"
    assert worker.requests[0][1] == body


@pytest.mark.parametrize("size", [999, 1000])
async def test_up_to_the_bound_an_answer_is_kept_whole(start_worker, size):
    worker = await start_worker(says(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size))
    assert await call(worker) == Captured(200, b"", b"x" * size, truncated=False)


@pytest.mark.parametrize(
    "data",
    [
        b"content-length: 1001\r\n\r\n" + b"x" * 1001,
        b"content-length: 999999999\r\n\r\n" + b"x" * 1001,
        b"transfer-encoding: chunked\r\n\r\n3e9\r\n" + b"x" * 1001,
        b"transfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 1001,
        b"connection: close\r\n\r\n" + b"x" * 1001,
        b"content-length: 500000\r\n\r\n" + b"x" * 500000,
    ],
)
async def test_beyond_it_the_beginning_is_kept_and_the_connection_ends(start_worker, until, data):
    worker = await start_worker(says(b"HTTP/1.1 200 OK\r\n" + data))
    assert await call(worker) == Captured(200, b"", b"x" * 1000, truncated=True)
    await until(lambda: worker.ended == 1)


async def test_pieces_that_cross_the_bound_are_cut_there(start_worker, until):
    async def script(connection, number):
        await connection.request()
        await connection.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n")
        for _ in range(3):
            await asyncio.sleep(0.01)
            await connection.write(b"y" * 400)
        await connection.ended()

    worker = await start_worker(script)
    assert await call(worker) == Captured(200, b"", b"y" * 1000, truncated=True)
    await until(lambda: worker.ended == 1)


async def test_an_answer_that_breaks_off_within_the_bound_is_an_error(start_worker):
    async def script(connection, number):
        await connection.request()
        await connection.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n" + b"x" * 1000)

    worker = await start_worker(script)
    with pytest.raises(UpstreamError):
        await call(worker)


async def test_the_answer_to_a_head_is_over_with_its_head(start_worker, until):
    worker = await start_worker(says(b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\ncontent-type: x/y\r\n\r\n"))
    assert await call(worker, method="HEAD") == Captured(200, b"x/y", b"", truncated=False)
    await until(lambda: worker.ended == 1)


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel"])
async def test_one_deadline_is_over_all_of_it(start_worker, until, begun):
    worker = await start_worker(says(begun))
    with pytest.raises(UpstreamTimeout):
        await call(worker, limits=CallLimits(0.05, 5, 1000))
    await until(lambda: worker.ended == 1)


async def test_it_covers_a_body_that_nobody_reads(start_worker, until):
    async def script(connection, number):
        await connection.ended()

    worker = await start_worker(script, receive_bytes=4096)
    with pytest.raises(UpstreamTimeout):
        await call(worker, b"x" * 20_000_000, limits=CallLimits(0.2, 5, 1000))


@pytest.mark.parametrize(
    ("limits", "message"),
    [(CallLimits(5, 0.05, 1000), "connecting to the worker timed out"), (CallLimits(0.05, 5, 1000), "within 0.05 s")],
)
async def test_connecting_in_vain_is_a_timeout(limits, message):
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]  # they take the places in the queue that nobody empties
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        with pytest.raises(UpstreamTimeout, match=message):
            await capture(address_of(f"http://127.0.0.1:{port}"), NOTHING, limits)
        for filler in fillers:
            filler.close()


async def test_a_call_that_is_connected_may_take_longer_than_connecting_may(start_worker):
    async def script(connection, number):
        await connection.request()
        await asyncio.sleep(0.2)
        await connection.answer(b"ok")

    worker = await start_worker(script)
    assert (await call(worker, limits=CallLimits(5, 0.05, 1000))).body == b"ok"


class Impatient:
    """A loop on a system that gives up connecting before we do."""

    def __init__(self, loop):
        self._loop = loop

    def __getattr__(self, name):
        return getattr(self._loop, name)

    async def create_connection(self, *_args, **_options):
        raise TimeoutError(110, "Connection timed out")


async def test_a_system_that_gives_up_connecting_makes_a_timeout_of_it():
    calls = Calls()
    calls._loop = Impatient(calls._loop)
    with pytest.raises(UpstreamTimeout, match="connecting to the worker timed out"):
        await capture(address_of("http://127.0.0.1:1"), NOTHING, LIMITS, calls=calls)


@pytest.mark.parametrize("host", ["a..b", "a" * 70 + ".b", "nowhere.invalid"])
async def test_a_host_that_cannot_be_found_is_an_error(host):
    with pytest.raises(UpstreamError):
        await capture(address_of(f"http://{host}"), NOTHING, LIMITS)


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel"])
async def test_cancelling_ends_the_connection(start_worker, until, begun):
    worker = await start_worker(says(begun))
    calling = asyncio.ensure_future(call(worker))
    await until(lambda: worker.requests)
    await asyncio.sleep(0.02)
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    assert calling.cancelled()
    await until(lambda: worker.ended == 1)
