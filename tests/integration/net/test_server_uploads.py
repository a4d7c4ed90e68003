"""Uploads: chunked and sized, bounded, stalled, aborted, and clients that leave while somebody works for them."""

import asyncio

import pytest

MANY = 2 << 20


def request(*lines, path="/", method="PUT"):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *lines, "", ""]).encode()


def sized(length):
    return request(f"Content-Length: {length}")


CHUNKED = request("Transfer-Encoding: chunked")


def chunks(body, size):
    pieces = [body[n : n + size] for n in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


async def measure(exchange):
    exchange.answer(200, b"%d" % len(await exchange.read_body()))


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_a_chunked_upload_is_one_body(start, connect, size):
    service = await start()
    client = await connect(service.server)
    body = bytes(range(256)) * 4
    await client.send(CHUNKED + chunks(body, size) + request("Content-Length: 0", path="/next"))
    assert (await client.answer())[2] == b"PUT / " + body
    assert (await client.answer())[2] == b"PUT /next "


async def test_a_chunked_upload_may_be_split_anywhere(start, connect):
    service = await start()
    client = await connect(service.server)
    raw = CHUNKED + chunks(b"hello world", 4)
    for n in range(len(raw)):
        await client.send(raw[n : n + 1])
        await asyncio.sleep(0)
    assert (await client.answer())[2] == b"PUT / hello world"


@pytest.mark.parametrize("bad", [b"zz\r\n", b"5\r\nhello!\r\n", b"-1\r\n", b"\r\n"])
async def test_broken_chunks_are_refused_and_the_connection_ends(start, connect, bad):
    service = await start()
    client = await connect(service.server)
    await client.send(CHUNKED + bad + request("Content-Length: 0"))
    status, headers, body = await client.answer()
    assert (status, headers["connection"], body) == (400, "close", b"request_body_aborted")
    assert await client.rest() == b""
    assert len(service.exchanges) == 1


@pytest.mark.parametrize("chunk", [100, 1 << 20])
async def test_the_limit_on_chunked_uploads_is_inclusive(start, connect, chunk):
    service = await start(measure, max_body_bytes=100_000)
    for size, status in ((100_000, 200), (100_001, 413)):
        client = await connect(service.server)
        await client.send(CHUNKED + chunks(b"x" * size, chunk))
        assert (await client.answer())[0] == status


async def test_a_chunked_upload_far_beyond_the_limit_gets_its_answer(start, connect):
    service = await start(measure, max_body_bytes=1000)
    client = await connect(service.server)
    sending = asyncio.ensure_future(client.send(CHUNKED, *[b"8000\r\n" + b"x" * 0x8000 + b"\r\n"] * 200))
    assert (await client.answer())[::2] == (413, b"request_body_too_large")
    await asyncio.gather(sending, return_exceptions=True)


async def test_large_uploads_arrive_whole(start, connect):
    service = await start(measure)
    for raw in (sized(MANY) + b"x" * MANY, CHUNKED + chunks(b"x" * MANY, 65536)):
        client = await connect(service.server)
        await client.send(raw)
        assert (await client.answer())[2] == b"%d" % MANY


async def test_an_upload_nobody_reads_waits_with_its_client(start, connect, until):
    read = asyncio.Event()

    async def work(exchange):
        await read.wait()
        await measure(exchange)

    service = await start(work, upload_stall_timeout_secs=0.1)
    client = await connect(service.server)
    size = 24 << 20
    sending = asyncio.ensure_future(client.send(sized(size), *[b"x" * 65536] * (size // 65536)))
    await until(lambda: service.exchanges and service.exchanges[0].body.held)
    await asyncio.sleep(0.3)
    assert service.exchanges[0].body.size < 2 << 20
    assert not sending.done()
    read.set()
    assert (await client.answer())[2] == b"%d" % size
    await sending


# --- stalled and aborted


@pytest.mark.parametrize("start_of_body", [sized(10) + b"hel", CHUNKED + b"5\r\nhel", sized(10)])
async def test_a_stalled_upload_is_given_up(start, connect, start_of_body):
    service = await start(upload_stall_timeout_secs=0.1)
    client = await connect(service.server)
    await client.send(start_of_body)
    status, headers, body = await client.answer()
    assert (status, headers["connection"], body) == (408, "close", b"request_body_stalled")


async def test_a_slow_but_steady_upload_is_not(start, connect):
    service = await start(upload_stall_timeout_secs=0.2)
    client = await connect(service.server)
    await client.send(sized(10))
    for _ in range(10):
        await asyncio.sleep(0.03)
        await client.send(b"x")
    assert (await client.answer())[0] == 200


async def test_an_upload_that_waits_for_its_reader_is_not_stalled(start, connect):
    async def work(exchange):
        await asyncio.sleep(0.3)
        await measure(exchange)

    service = await start(work, upload_stall_timeout_secs=0.1)
    client = await connect(service.server)
    await client.send(request("Content-Length: 5", "Expect: 100-continue"))
    assert (await client.head())[0] == 100
    await client.send(b"hello")
    assert (await client.answer())[2] == b"5"


@pytest.mark.parametrize(
    "start_of_body", [sized(10) + b"hel", CHUNKED + b"5\r\nhel", sized(10), CHUNKED + b"5\r\nhello\r\n0\r\n"]
)
@pytest.mark.parametrize("at_once", [True, False])
async def test_a_client_that_half_closes_in_its_upload_hears_why_it_failed(
    start, connect, until, start_of_body, at_once
):
    service = await start()
    client = await connect(service.server)
    await client.send(start_of_body)
    if not at_once:
        await until(lambda: service.exchanges)
    client.half_close()
    status, headers, body = await client.answer()
    assert (status, headers["connection"], body) == (400, "close", b"request_body_aborted")
    assert await client.rest() == b""
    await until(lambda: len(service.server.connections) == 0)
    assert service.cancelled == []


@pytest.mark.parametrize("how", ["close", "reset", "half_close"])
@pytest.mark.parametrize("size", [10, 300_000])  # the larger one is held back, and yet its end can arrive
async def test_a_client_that_leaves_its_upload_while_nobody_reads_it_ends_the_wait(start, connect, until, how, size):
    service = await start(lambda exchange: asyncio.Event().wait(), header_read_timeout_secs=0.2)
    client = await connect(service.server)
    sending = asyncio.ensure_future(client.send(sized(2 * size), b"x" * size))
    await until(lambda: service.exchanges and service.exchanges[0].body.size)
    await until(lambda: sending.done() or service.exchanges[0].body.held)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    getattr(client, how)()
    if how != "reset":
        client.writer.transport.abort()
    await until(lambda: service.finished)
    assert len(service.cancelled) == 1


# --- leaving while somebody works


@pytest.mark.parametrize("how", ["close", "reset", "half_close"])
@pytest.mark.parametrize("raw", [request(method="GET"), sized(5) + b"hello", CHUNKED + chunks(b"hello", 2)])
async def test_a_client_that_leaves_cancels_the_work_for_it(start, connect, until, how, raw):
    async def work(exchange):
        await exchange.read_body()
        await asyncio.Event().wait()

    service = await start(work)
    client = await connect(service.server)
    await client.send(raw)
    await until(lambda: service.exchanges and service.exchanges[0].body.complete)
    getattr(client, how)()
    await until(lambda: service.finished)
    assert len(service.cancelled) == len(service.finished) == 1


@pytest.mark.parametrize("how", ["close", "reset", "half_close"])
async def test_a_client_that_leaves_at_once_is_accounted_for(start, connect, until, how):
    service = await start(lambda exchange: asyncio.Event().wait())
    for _ in range(20):
        client = await connect(service.server)
        client.writer.write(request(method="GET"))
        getattr(client, how)()
    # A reset may overtake the request; whatever began has to end.
    await until(lambda: len(service.server.connections) == 0 and len(service.finished) == len(service.exchanges))
    assert len(service.exchanges) == 20 or how == "reset"


async def test_a_client_that_leaves_takes_its_pipeline_along(start, connect, until):
    async def work(exchange):
        if exchange.path == "/0":
            await asyncio.Event().wait()
        exchange.answer(200)

    service = await start(work)
    client = await connect(service.server)
    await client.send(b"".join(request(path=f"/{n}", method="GET") for n in range(5)))
    await until(lambda: service.exchanges)
    client.close()
    await until(lambda: len(service.server.connections) == 0)
    await until(lambda: service.finished)
    assert [exchange.path for exchange in service.exchanges] == ["/0"]


@pytest.mark.parametrize("how", ["close", "reset", "half_close"])
async def test_leaving_is_noticed_while_nothing_is_read(start, connect, until, how):
    service = await start(lambda exchange: asyncio.Event().wait())
    client = await connect(service.server)
    get = request(method="GET")
    flood = get * (100_000 // len(get))
    await client.send(flood)
    await until(lambda: service.server.held._members)
    getattr(client, how)()
    await until(lambda: service.finished)
    assert len(service.exchanges) == 1
    if how == "half_close":
        client.close()


# --- floods


async def test_a_flood_of_pipelined_requests_waits_with_its_client(start, connect, until):
    release = asyncio.Event()

    async def work(exchange):
        await release.wait()
        exchange.answer(200)

    service = await start(work)
    client = await connect(service.server, limit=1 << 22)
    get = request(method="GET")
    count = (24 << 20) // len(get) // 64
    flood = get * count
    sending = asyncio.ensure_future(client.send(*[flood[n : n + 65536] for n in range(0, len(flood), 65536)] * 64))
    await until(lambda: service.server.held._members)
    await asyncio.sleep(0.2)
    (connection,) = service.server.connections.members()
    assert len(connection._backlog) < 1 << 20
    release.set()
    for _ in range(300):
        await client.answer()
        assert len(connection._backlog) < 1 << 20
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    client.reset()
    await until(lambda: len(service.server.connections) == 0)


@pytest.mark.parametrize("waits", [True, False])
async def test_a_client_that_takes_no_answers_gets_no_more(start, connect, until, waits):
    served = 0

    def inline(exchange):
        nonlocal served
        served += 1
        exchange.answer(200, b"x" * 2000)
        exchange.finish()

    async def work(exchange):
        nonlocal served
        served += 1
        exchange.answer(200, b"x" * 2000)

    service = await start(work)
    if not waits:
        service.server.handler = inline
    client = await connect(service.server, receive_bytes=4096)
    client.writer.transport.pause_reading()
    get = request(method="GET")
    count = 5_000
    sending = asyncio.ensure_future(client.send(*[get * 200] * (count // 200)))
    (connection,) = service.server.connections.members()
    await until(lambda: not connection.writable)
    seen = -1
    while seen != served:
        seen = served
        await asyncio.sleep(0.05)
    assert served < count
    assert connection.transport.get_write_buffer_size() < 1 << 20
    client.writer.transport.resume_reading()
    for _ in range(count):
        assert (await client.answer())[0] == 200
    await sending
    assert served == count
