"""Streams and deadlines: comments for silent ones, patience with slow readers, and an end to slow senders."""

import asyncio

import pytest

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
PING = b": ping\n\n"


# --- deadlines


@pytest.mark.parametrize("pause_secs", [None, 0.03])
async def test_a_head_that_takes_too_long_ends_the_connection_silently(start, connect, pause_secs):
    service = await start(header_read_timeout_secs=0.1)
    client = await connect(service.server)

    async def dribble():
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n")
        while pause_secs:
            await asyncio.sleep(pause_secs)
            await client.send(b"A: b\r\n")

    dribbling = asyncio.ensure_future(dribble())
    assert await client.rest() == b""
    dribbling.cancel()
    await asyncio.gather(dribbling, return_exceptions=True)
    assert service.exchanges == []


async def test_a_connection_that_never_sends_is_ended(start, connect):
    service = await start(header_read_timeout_secs=0.1)
    assert await (await connect(service.server)).rest() == b""


async def test_a_second_head_that_takes_too_long_ends_the_connection(start, connect):
    service = await start(header_read_timeout_secs=0.1)
    client = await connect(service.server)
    await client.send(GET + GET[:-3])
    assert (await client.answer())[0] == 200
    assert await client.rest() == b""
    assert len(service.exchanges) == 1


async def test_the_deadline_of_a_head_ends_with_it(start, connect):
    service = await start(header_read_timeout_secs=0.1)
    client = await connect(service.server)
    await client.send(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n")
    for _ in range(8):
        await asyncio.sleep(0.03)
        await client.send(b"x")
    assert (await client.answer())[2] == b"PUT / xxxxxxxx"


async def test_an_idle_connection_is_ended_and_a_working_one_is_not(start, connect):
    async def work(exchange):
        exchange.start(200)
        for _ in range(4):
            await asyncio.sleep(0.06)
            exchange.write(b"data: 1\n\n")
        exchange.end()

    service = await start(work, idle_timeout_secs=0.1)
    client = await connect(service.server)
    await client.send(GET)
    assert (await client.answer())[2] == b"data: 1\n\n" * 4
    assert await client.rest() == b""


async def test_a_client_that_stops_reading_its_answer_is_given_up(start, connect, until):
    async def work(exchange):
        exchange.answer(200, b"x" * (8 << 20))

    for line in (b"", b"Connection: close\r\n"):
        service = await start(work, idle_timeout_secs=0.1)
        client = await connect(service.server, receive_bytes=4096)
        client.writer.transport.pause_reading()
        await client.send(GET[:-2] + line + b"\r\n")
        await until(lambda service=service: service.finished)
        assert len(service.server.connections) == 1
        await until(lambda service=service: len(service.server.connections) == 0)


async def test_timeouts_of_zero_are_off(start, connect):
    service = await start(
        header_read_timeout_secs=0, idle_timeout_secs=0, upload_stall_timeout_secs=0, sse_keepalive_secs=0
    )
    client = await connect(service.server)
    for connection in service.server.connections.members():
        connection.sweep(asyncio.get_running_loop().time() + 1e6)
    await client.send(GET)
    await client.answer()
    for connection in service.server.connections.members():
        connection.sweep(asyncio.get_running_loop().time() + 1e6)
    await client.send(GET)
    assert (await client.answer())[0] == 200


# --- silent streams


async def test_comments_fill_silence_between_events_only(start, connect):
    go_on = asyncio.Event()

    async def work(exchange):
        exchange.start(200)
        await go_on.wait()
        go_on.clear()
        exchange.write(b"data: hal")
        await asyncio.sleep(0.15)
        exchange.write(b"f\n")
        await asyncio.sleep(0.1)
        exchange.write(b"\n")
        await go_on.wait()
        exchange.end()

    service = await start(work, sse_keepalive_secs=0.05)
    client = await connect(service.server)
    await client.send(GET)
    await client.head()
    assert [await client.chunk() for _ in range(2)] == [PING] * 2
    go_on.set()
    while (chunk := await client.chunk()) == PING:
        pass
    assert [chunk, await client.chunk(), await client.chunk()] == [b"data: hal", b"f\n", b"\n"]
    assert await client.chunk() == PING
    go_on.set()
    async for chunk in client.chunks():
        assert chunk == PING
    await client.send(GET)
    assert (await client.head())[0] == 200
    go_on.set()


async def test_a_stream_that_speaks_or_is_no_event_stream_gets_no_comments(start, connect):
    async def work(exchange):
        exchange.start(200, b"text/plain" if exchange.path == "/plain" else b"text/event-stream; charset=utf-8")
        for _ in range(4):
            await asyncio.sleep(0.05)
            exchange.write(b"data: 1\n\n")
        exchange.end()

    service = await start(work, sse_keepalive_secs=0.2)
    client = await connect(service.server)
    await client.send(GET)
    assert (await client.answer())[2] == b"data: 1\n\n" * 4
    service = await start(work, sse_keepalive_secs=0.01)
    client = await connect(service.server)
    await client.send(GET.replace(b"/ ", b"/plain "))
    assert (await client.answer())[2] == b"data: 1\n\n" * 4


# --- slow readers


async def test_draining_bounds_what_is_held_for_a_slow_reader(start, connect, until):
    piece = b"x" * 10_000
    count = 1500
    written = 0

    async def work(exchange):
        nonlocal written
        exchange.start(200, b"text/plain")
        for _ in range(count):
            exchange.write(piece)
            written += 1
            await exchange.drain()
        exchange.end()

    service = await start(work)
    client = await connect(service.server, receive_bytes=4096)
    client.writer.transport.pause_reading()
    await client.send(GET)
    (connection,) = service.server.connections.members()
    await until(lambda: not connection.writable)
    await asyncio.sleep(0.1)
    assert connection.transport.get_write_buffer_size() < 200_000
    assert written < count
    client.writer.transport.resume_reading()
    assert len((await client.answer())[2]) == count * len(piece)
    assert written == count


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_slow_reader_that_leaves_ends_the_wait_for_it(start, connect, until, how):
    async def work(exchange):
        exchange.start(200, b"text/plain")
        while True:
            exchange.write(b"x" * 10_000)
            await exchange.drain()

    service = await start(work)
    client = await connect(service.server, receive_bytes=4096)
    client.writer.transport.pause_reading()
    await client.send(GET)
    await until(lambda: service.exchanges and not service.exchanges[0]._wire.writable)
    getattr(client, how)()
    await until(lambda: service.finished)
    assert len(service.cancelled) == 1


async def test_a_listener_is_told_of_the_clients_pace_even_if_it_comes_late(start, connect, until):
    told = []
    behind = asyncio.Event()
    caught_up = asyncio.Event()

    def hear(writable):
        told.append(writable)
        (caught_up if writable else behind).set()

    async def work(exchange):
        exchange.start(200, b"text/plain")
        while exchange._wire.writable:
            exchange.write(b"x" * 100_000)
            await asyncio.sleep(0)
        exchange.on_writable = hear
        await caught_up.wait()
        exchange.end()

    service = await start(work)
    client = await connect(service.server, receive_bytes=4096)
    client.writer.transport.pause_reading()
    await client.send(GET)
    await asyncio.wait_for(behind.wait(), 10)
    client.writer.transport.resume_reading()
    await client.answer()
    assert told == [False, True]


# --- ends that are failures


async def test_an_aborted_stream_is_no_end(start, connect):
    async def work(exchange):
        exchange.start(200)
        exchange.write(b"data: 1\n\n")
        await asyncio.sleep(0.02)
        exchange.abort()

    service = await start(work)
    client = await connect(service.server)
    await client.send(GET)
    await client.head()
    assert await client.rest() in {b"9\r\ndata: 1\n\n\r\n", b""}


@pytest.mark.parametrize("begin", [True, False])
async def test_a_handler_that_ends_without_its_answer_cuts_the_connection(start, connect, begin):
    async def work(exchange):
        if begin:
            exchange.start(200)
            await asyncio.sleep(0.02)

    service = await start(work)
    client = await connect(service.server)
    await client.send(GET + GET)
    assert (await client.rest()).count(b"HTTP/1.1") == begin
    assert len(service.exchanges) == 1
