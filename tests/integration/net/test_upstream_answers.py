"""Answers of workers over the wire: whole, cut, late, too large, given up, and piped uploads with them."""

import asyncio

import pytest

from smg.errors import GatewayError, UpstreamError, UpstreamTimeout
from smg.net.body import RequestBody

LIMIT = 1 << 20


@pytest.fixture
def post(wire_format):
    return wire_format[0]


@pytest.fixture
def answer_head(wire_format):
    return wire_format[1]


def in_secs(secs):
    return asyncio.get_running_loop().time() + secs


async def ask(pool, request, deadline=0.0, body=None, limit_bytes=LIMIT):
    async with asyncio.timeout(10):
        reply = await pool.call(request, deadline, body)
        try:
            return await reply.read(limit_bytes)
        finally:
            reply.close()


async def failure(awaitable, kind=UpstreamError):
    with pytest.raises(kind) as caught:
        await awaitable
    return caught.value.code


def pieces(raw, size):
    return [raw[n : n + size] for n in range(0, len(raw), size)]


@pytest.mark.parametrize("size", [1, 10, 1000])
async def test_answers_of_every_framing_arrive_whole(start_worker, new_pool, post, answer_head, size):
    async def script(connection, number):
        _, kind = await connection.request()
        raw = {
            b"sized": answer_head("content-length: 5") + b"hello",
            b"chunked": answer_head("transfer-encoding: chunked") + b"2;x\r\nhe\r\n3\r\nllo\r\n0\r\nA: b\r\n\r\n",
            b"until close": answer_head() + b"hello",
            b"interim": answer_head(status="103 Early Hints") * 2 + answer_head("content-length: 5") + b"hello",
        }[kind]
        for piece in pieces(raw, size):
            await connection.write(piece)
            await asyncio.sleep(0)

    pool = new_pool(await start_worker(script))
    for kind in (b"sized", b"chunked", b"until close", b"interim"):
        assert await ask(pool, post(kind)) == b"hello"


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-le", "call_upstream_request_error"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel", "read_response_body_failed"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel", "read_response_body_failed"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", "read_response_body_failed"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnot-hex\r\n", "call_upstream_request_error"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "call_upstream_request_error"),
        (b"\0" * 100, "call_upstream_request_error"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "call_upstream_request_error"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"b" * 100_000, "call_upstream_request_error"),
    ],
)
async def test_a_broken_answer_is_a_failure(start_worker, new_pool, post, until, raw, code, how):
    async def script(connection, number):
        await connection.request()
        await connection.write(raw)
        await asyncio.sleep(0.01)
        if how == "reset":
            connection.reset()

    pool = new_pool(await start_worker(script))
    assert await failure(ask(pool, post())) == code
    await until(lambda: len(pool) == 0)
    assert pool.resends == 0


@pytest.mark.parametrize("head", ["content-length: 1000000", "transfer-encoding: chunked", "a: b"])
@pytest.mark.parametrize("late", [True, False])
async def test_an_answer_beyond_the_limit_is_refused_and_the_worker_let_go(
    start_worker, new_pool, post, until, answer_head, head, late
):
    async def script(connection, number):
        await connection.request()
        await connection.write(answer_head(head))
        if late:
            await asyncio.sleep(0.01)
        piece = b"x" * 1000
        for _ in range(1000):
            await connection.write(b"3e8\r\n%b\r\n" % piece if "chunked" in head else piece)
        await connection.ended()

    worker = await start_worker(script)
    pool = new_pool(worker)
    assert await failure(ask(pool, post(), limit_bytes=10_000)) == "upstream_response_too_large"
    assert len(pool) == 0
    await until(lambda: worker.open == 0)


# --- deadlines and cancellation


@pytest.mark.parametrize("begun", ["nothing", "head", "body"])
async def test_the_deadline_covers_the_whole_exchange(start_worker, new_pool, post, until, answer_head, begun):
    async def script(connection, number):
        await connection.request()
        if begun != "nothing":
            await connection.write(answer_head("content-length: 5") + b"hel" * (begun == "body"))
        await connection.ended()

    worker = await start_worker(script)
    pool = new_pool(worker)
    assert await failure(ask(pool, post(), in_secs(0.05)), UpstreamTimeout) == "call_upstream_timeout"
    assert len(pool) == 0
    await until(lambda: worker.ended == 1)


async def test_a_deadline_ends_with_its_exchange(start_worker, new_pool, post):
    pool = new_pool(await start_worker(), idle_timeout_secs=0)
    await ask(pool, post(), in_secs(0.05))
    await asyncio.sleep(0.1)
    assert len(pool) == 1


@pytest.mark.parametrize("begun", ["nothing", "head", "body"])
async def test_cancelling_lets_the_worker_go(start_worker, new_pool, post, until, answer_head, begun):
    async def script(connection, number):
        await connection.request()
        if begun != "nothing":
            await connection.write(answer_head("content-length: 5") + b"hel" * (begun == "body"))
        await connection.ended()

    worker = await start_worker(script)
    pool = new_pool(worker)
    asking = asyncio.ensure_future(ask(pool, post()))
    await until(lambda: worker.requests)
    await asyncio.sleep(0.01)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert asking.cancelled()
    assert len(pool) == 0
    await until(lambda: worker.ended == 1)


async def test_cancelling_at_any_moment_harms_nobody_else(start_worker, new_pool, post):
    worker = await start_worker()
    pool = new_pool(worker)

    async def call(n):
        assert (await ask(pool, post(b"%d" % n))).partition(b":")[2] == b"%d" % n

    for n in range(150):
        doomed = asyncio.ensure_future(call(-n))
        for _ in range(n % 7):
            await asyncio.sleep(0)
        doomed.cancel()
        await call(n)
        await asyncio.gather(doomed, return_exceptions=True)
        assert doomed.cancelled() or doomed.exception() is None
    assert pool.resends == 0
    sent = [body for _, body in worker.requests]
    assert len(sent) == len(set(sent))


# --- the pace of a stream


@pytest.mark.parametrize("head", ["content-length: 50000000", "transfer-encoding: chunked", "a: b"])
async def test_a_held_stream_waits_at_the_worker(start_worker, new_pool, post, answer_head, until, head):
    total, size = 50_000_000, 50_000
    sent = 0

    async def script(connection, number):
        nonlocal sent
        await connection.request()
        await connection.write(answer_head(head))
        piece = b"x" * size
        while sent < total:
            await connection.write(b"%x\r\n%b\r\n" % (size, piece) if "chunked" in head else piece)
            sent += size
        if "chunked" in head:
            await connection.write(b"0\r\n\r\n")

    pool = new_pool(await start_worker(script))
    reply = await pool.call(post(), 0.0)
    received = 0
    holding = True

    def write(piece):
        nonlocal received
        received += len(piece)
        if holding:
            reply.hold()

    pumping = asyncio.ensure_future(reply.pump(write))
    for _ in range(3):
        await asyncio.sleep(0.05)
        assert received < 2 << 20
        assert sent < total
        reply.unhold()
    holding = False
    reply.unhold()
    await pumping
    assert received == total


async def test_an_answer_nobody_reads_waits_at_the_worker(start_worker, new_pool, post, answer_head):
    total = 30_000_000

    async def script(connection, number):
        await connection.request()
        await connection.write(answer_head(f"content-length: {total}"))
        for _ in range(total // 50_000):
            await connection.write(b"x" * 50_000)

    pool = new_pool(await start_worker(script))
    reply = await pool.call(post(), 0.0)
    await asyncio.sleep(0.1)
    assert reply._size < 2 << 20
    assert len(await reply.read(total)) == total


async def test_a_held_stream_still_ends_at_its_deadline(start_worker, new_pool, post, answer_head):
    async def script(connection, number):
        await connection.request()
        await connection.write(answer_head("transfer-encoding: chunked") + b"1\r\na\r\n")
        await connection.ended()

    pool = new_pool(await start_worker(script))
    reply = await pool.call(post(), in_secs(0.1))
    assert await failure(reply.pump(lambda piece: reply.hold()), UpstreamTimeout) == "call_upstream_timeout"


# --- piped uploads


class Client:
    """Whose upload is piped: sends while it is not held."""

    def __init__(self, length, limit_bytes=1 << 30):
        self.held = False
        self.holds = 0
        self.body = RequestBody(self, length, limit_bytes, 0.0)

    def hold(self):
        self.held = True
        self.holds += 1

    def unhold(self):
        self.held = False

    def invite(self): ...

    async def send(self, total, size=50_000):
        for _ in range(total // size):
            while self.held:  # noqa: ASYNC110  the sink lets go
                await asyncio.sleep(0.001)
            self.body.feed(b"x" * size, 0.0)
            await asyncio.sleep(0)
        self.body.finish()


def upload_head(length):
    return b"POST / HTTP/1.1\r\nhost: worker\r\ncontent-length: %d\r\n\r\n" % length


async def test_an_upload_waits_for_a_slow_worker(start_worker, new_pool):
    total = 30_000_000
    read = asyncio.Event()

    async def script(connection, number):
        await connection.request(body=False)
        await read.wait()
        left = total
        while left:
            left -= len(await connection.reader.read(1 << 16))
        await connection.answer(b"all")
        await connection.ended()

    worker = await start_worker(script, receive_bytes=65536)
    pool = new_pool(worker)
    client = Client(total)
    client.body.feed(b"x" * 500_000, 0.0)
    asking = asyncio.ensure_future(ask(pool, upload_head(total), body=client.body))
    sending = asyncio.ensure_future(client.send(total - 500_000))
    await asyncio.sleep(0.2)
    assert client.held
    assert client.body.size < 8_000_000
    (connection,) = pool._all
    assert connection.transport.get_write_buffer_size() < 2_000_000
    read.set()
    assert await asking == b"all"
    await sending
    assert not client.held
    assert len(pool._idle) == 1


@pytest.mark.parametrize("how", ["whole", "begun"])
async def test_an_early_answer_ends_an_upload(start_worker, new_pool, until, answer_head, how):
    async def script(connection, number):
        await connection.request(body=False)
        await connection.reader.readexactly(1000)
        await connection.write(answer_head("content-length: 5", status="413 Too Large") + b"he")
        if how == "begun":
            await asyncio.sleep(0.02)
        await connection.write(b"llo")
        await connection.ended()

    worker = await start_worker(script)
    pool = new_pool(worker)
    client = Client(1_000_000)
    client.body.feed(b"x" * 1000, 0.0)
    reply = await pool.call(upload_head(1_000_000), 0.0, client.body)
    assert (reply.status, await reply.read(LIMIT)) == (413, b"hello")
    assert not client.body.piped
    client.body.feed(b"x", 0.0)
    assert len(pool) == 0
    await until(lambda: worker.ended == 1)


@pytest.mark.parametrize("code", ["request_body_stalled", "request_body_aborted", "request_body_too_large"])
async def test_an_upload_that_fails_lets_the_worker_go(start_worker, new_pool, until, code):
    async def script(connection, number):
        await connection.request(body=False)
        await connection.ended()

    worker = await start_worker(script)
    pool = new_pool(worker)
    client = Client(None, limit_bytes=10)
    asking = asyncio.ensure_future(ask(pool, upload_head(100), body=client.body))
    await until(lambda: worker.requests)
    if code == "request_body_too_large":
        client.body.feed(b"x" * 11, 0.0)
    else:
        client.body.fail(GatewayError(code, "so it goes"))
    assert await failure(asking, GatewayError) == code
    assert len(pool) == 0
    await until(lambda: worker.ended == 1)


async def test_a_worker_that_dies_during_an_upload_is_a_failure_and_frees_the_client(start_worker, new_pool):
    async def script(connection, number):
        await connection.request(body=False)
        await connection.reader.readexactly(1000)
        connection.reset()

    pool = new_pool(await start_worker(script))
    client = Client(10_000_000)
    asking = asyncio.ensure_future(ask(pool, upload_head(10_000_000), body=client.body))
    sending = asyncio.ensure_future(client.send(10_000_000))
    assert await failure(asking) == "call_upstream_request_error"
    assert not client.body.piped
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    assert len(pool) == 0


async def test_cancelling_an_upload_lets_worker_and_body_go(start_worker, new_pool, until):
    async def script(connection, number):
        await connection.request(body=False)
        await connection.ended()

    worker = await start_worker(script)
    pool = new_pool(worker)
    client = Client(100)
    asking = asyncio.ensure_future(ask(pool, upload_head(100), body=client.body))
    await until(lambda: worker.requests)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await until(lambda: worker.ended == 1)
    assert not client.body.piped
    client.body.feed(b"x", 0.0)
    assert len(pool) == 0
