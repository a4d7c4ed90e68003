"""A server in front of a pool, as the gateway puts them together: pace, failures and leaving pass through both."""

import asyncio

import pytest

from smg.errors import UpstreamError

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
SIZE = 50_000
PIECE = b"data: " + b"x" * (SIZE - 8) + b"\n\n"


def relaying(pool, post):
    """Work that streams the worker's answer to the client, the request's body piped or not."""

    async def work(exchange):
        if exchange.method == "PUT":
            head = b"POST / HTTP/1.1\r\nhost: worker\r\ncontent-length: %d\r\n\r\n" % (exchange.body.length or 0)
            reply = await pool.call(head, 0.0, exchange.body)
        else:
            reply = await pool.call(post(), 0.0)
        try:
            if reply.head.chunked:
                exchange.start(reply.status)
                exchange.on_writable = lambda writable: reply.unhold() if writable else reply.hold()
                try:
                    await reply.pump(exchange.write)
                except UpstreamError as error:
                    exchange.write(error.code.encode())
                exchange.end()
            else:
                exchange.answer(reply.status, await reply.read(1 << 20))
        finally:
            reply.close()

    return work


@pytest.fixture
def post(wire_format):
    return wire_format[0]


@pytest.fixture
def stream(wire_format):
    return wire_format[1]("transfer-encoding: chunked", "content-type: text/event-stream")


def put(length):
    return b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length


async def test_a_stream_passes_through_whole(start, connect, start_worker, new_pool, post, stream):
    async def script(connection, number):
        while True:
            await connection.request()
            await connection.write(stream)
            for n in range(5):
                await connection.write(b"9\r\ndata: %d\n\n\r\n" % n)
                await asyncio.sleep(0)
            await connection.write(b"0\r\n\r\n")

    worker = await start_worker(script)
    service = await start(relaying(new_pool(worker), post))
    client = await connect(service.server)
    for _ in range(3):
        await client.send(GET)
        assert (await client.answer())[2] == b"".join(b"data: %d\n\n" % n for n in range(5))
    assert worker.connections == 1


@pytest.mark.parametrize("burst", [0, 5])
async def test_a_slow_client_slows_the_worker_down_and_nothing_piles_up(
    start, connect, start_worker, new_pool, post, stream, until, burst
):
    """Also when the first pieces come with the head and fill everything at once."""
    count = 400
    sent = 0

    async def script(connection, number):
        nonlocal sent
        await connection.request()
        chunk = b"%x\r\n%b\r\n" % (SIZE, PIECE)
        await connection.write(stream + chunk * burst)
        sent = burst
        while sent < count:
            await connection.write(chunk)
            sent += 1
        await connection.write(b"0\r\n\r\n")

    pool = new_pool(await start_worker(script))
    service = await start(relaying(pool, post))
    client = await connect(service.server, receive_bytes=4096)
    client.writer.transport.pause_reading()
    await client.send(GET)
    await until(lambda: service.server.connections.members() and sent)
    (connection,) = service.server.connections.members()
    seen = -1
    while seen != sent:
        seen = sent
        await asyncio.sleep(0.05)
        assert connection.transport.get_write_buffer_size() < 2 << 20
    assert sent < count
    client.writer.transport.resume_reading()
    assert len((await client.answer())[2]) == count * SIZE


@pytest.mark.parametrize("how", ["close", "reset", "half_close"])
@pytest.mark.parametrize("stage", ["no head", "head", "events", "stalled"])
async def test_a_client_that_leaves_lets_the_worker_go(
    start, connect, start_worker, new_pool, post, stream, until, how, stage
):
    async def script(connection, number):
        await connection.request()
        if stage != "no head":
            await connection.write(stream)
        if stage == "events":
            await connection.write(b"9\r\ndata: 1\n\n\r\n")
        try:
            while stage == "stalled":
                await connection.write(b"%x\r\n%b\r\n" % (SIZE, PIECE))
        except ConnectionError:
            connection.worker.ended += 1
            raise
        await connection.ended()

    worker = await start_worker(script)
    pool = new_pool(worker)
    service = await start(relaying(pool, post))
    client = await connect(service.server, receive_bytes=4096)
    if stage == "stalled":
        client.writer.transport.pause_reading()
    await client.send(GET)
    await until(lambda: worker.requests)
    if stage in {"head", "events"}:
        await client.head()
    if stage == "stalled":
        await until(lambda: not service.exchanges[0]._wire.writable)
    getattr(client, how)()
    await until(lambda: worker.ended == 1)
    await until(lambda: service.finished)
    assert len(pool) == 0
    assert len(service.cancelled) == 1


async def test_a_stream_that_breaks_is_told_to_the_client(start, connect, start_worker, new_pool, post, stream):
    async def script(connection, number):
        await connection.request()
        await connection.write(stream + b"9\r\ndata: 1\n\n\r\n")
        await asyncio.sleep(0.01)
        connection.reset()

    service = await start(relaying(new_pool(await start_worker(script)), post))
    client = await connect(service.server)
    await client.send(GET)
    assert (await client.answer())[2] == b"data: 1\n\nread_response_body_failed"


# --- uploads


async def test_a_slow_worker_slows_the_client_down_and_nothing_piles_up(
    start, connect, start_worker, new_pool, post, until
):
    total = 24 << 20
    read = asyncio.Event()

    async def script(connection, number):
        await connection.request(body=False)
        await read.wait()
        await connection.reader.readexactly(total // 2)
        left = total - total // 2
        while left:
            left -= len(await connection.reader.read(1 << 16))
        await connection.answer(b"all")
        await connection.ended()

    worker = await start_worker(script, receive_bytes=65536)
    pool = new_pool(worker)
    service = await start(relaying(pool, post), upload_stall_timeout_secs=0.2)
    client = await connect(service.server)
    sending = asyncio.ensure_future(client.send(put(total), *[b"x" * 65536] * (total // 65536)))
    await until(lambda: pool._all and service.exchanges[0].body.held)
    await asyncio.sleep(0.3)
    (upstream,) = pool._all
    assert upstream.transport.get_write_buffer_size() < 2 << 20
    assert service.exchanges[0].body.size < 16 << 20
    assert not service.finished
    read.set()
    assert (await client.answer())[2] == b"all"
    await sending


async def test_a_client_that_half_closes_in_a_piped_upload_hears_it_and_the_worker_is_let_go(
    start, connect, start_worker, new_pool, post, until
):
    async def script(connection, number):
        await connection.request(body=False)
        await connection.ended()

    worker = await start_worker(script)
    service = await start(relaying(new_pool(worker), post))
    client = await connect(service.server)
    await client.send(put(100) + b"hel")
    await until(lambda: worker.requests)
    client.half_close()
    status, headers, body = await client.answer()
    assert (status, headers["connection"], body) == (400, "close", b"request_body_aborted")
    await until(lambda: worker.ended == 1)


async def test_a_piped_upload_that_stalls_is_given_up(start, connect, start_worker, new_pool, post, until):
    async def script(connection, number):
        await connection.request(body=False)
        await connection.ended()

    worker = await start_worker(script)
    service = await start(relaying(new_pool(worker), post), upload_stall_timeout_secs=0.1)
    client = await connect(service.server)
    await client.send(put(100) + b"hel")
    assert (await client.answer())[::2] == (408, b"request_body_stalled")
    await until(lambda: worker.ended == 1)


async def test_an_early_answer_passes_through_while_the_client_still_sends(
    start, connect, start_worker, new_pool, post
):
    async def script(connection, number):
        await connection.request(body=False)
        await connection.reader.readexactly(1000)
        await connection.answer(b"too long", status="400 Bad Request")
        await connection.ended()

    pool = new_pool(await start_worker(script))
    service = await start(relaying(pool, post))
    client = await connect(service.server)
    total = 16 << 20
    sending = asyncio.ensure_future(client.send(put(total), *[b"x" * 65536] * (total // 65536)))
    status, headers, body = await client.answer()
    assert (status, headers["connection"], body) == (400, "close", b"too long")
    await asyncio.gather(sending, return_exceptions=True)
    assert len(pool) == 0


@pytest.mark.parametrize("how", ["close", "reset", "half_close"])
async def test_leaving_during_an_early_stream_ends_it(start, connect, start_worker, new_pool, post, stream, until, how):
    async def script(connection, number):
        await connection.request(body=False)
        await connection.write(stream + b"9\r\ndata: 1\n\n\r\n")
        await connection.ended()

    worker = await start_worker(script)
    service = await start(relaying(new_pool(worker), post))
    client = await connect(service.server)
    await client.send(put(100) + b"hel")
    await client.head()
    getattr(client, how)()
    await until(lambda: worker.ended == 1)
    await until(lambda: service.finished)


async def test_a_piped_upload_to_a_worker_that_is_not_there_gets_an_answer(
    start, connect, start_worker, new_pool, post
):
    worker = await start_worker()
    pool = new_pool(worker)
    await worker.stop()
    service = await start(relaying(pool, post))
    client = await connect(service.server)
    await client.send(put(100) + b"hel")
    assert (await client.answer())[::2] == (500, b"call_upstream_connection_failed")
