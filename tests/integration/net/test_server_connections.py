"""Connections of clients: kept, pipelined, old-fashioned, and ended so that the answer arrives."""

import asyncio

import pytest

GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"


def get(path, *lines, version="1.1", method="GET"):
    return "\r\n".join([f"{method} {path} HTTP/{version}", "Host: x", *lines, "", ""]).encode()


def put(body, *lines, length=None, path="/"):
    return get(path, f"Content-Length: {len(body) if length is None else length}", *lines, method="PUT") + body


async def test_one_connection_serves_many_requests(start, connect):
    service = await start()
    client = await connect(service.server)
    for n in range(20):
        await client.send(put(b"%d" % n, path=f"/{n}"))
        assert (await client.answer())[::2] == (200, b"PUT /%d %d" % (n, n))
    assert len(service.server.connections) == 1


@pytest.mark.parametrize("waits", [True, False])
async def test_pipelined_requests_are_answered_in_order(start, connect, waits):
    async def work(exchange):
        if exchange.path == "/0":
            await asyncio.sleep(0.02)
        exchange.answer(200, exchange.path.encode())

    service = await start(work)
    if not waits:
        service.server.handler = inline
    client = await connect(service.server)
    await client.send(b"".join(get(f"/{n}") for n in range(50)))
    assert [(await client.answer())[2] for _ in range(50)] == [b"/%d" % n for n in range(50)]


def inline(exchange):
    exchange.answer(200, exchange.path.encode())
    exchange.finish()


async def test_handlers_that_wait_and_handlers_that_do_not_take_turns_in_order(start, connect):
    async def work(exchange):
        await asyncio.sleep(0)
        exchange.answer(200, exchange.path.encode())

    service = await start(work)
    waiting = service.server.handler
    service.server.handler = lambda exchange: (inline if int(exchange.path[1:]) % 3 else waiting)(exchange)
    client = await connect(service.server)
    await client.send(b"".join(get(f"/{n}") for n in range(40)))
    assert [(await client.answer())[2] for _ in range(40)] == [b"/%d" % n for n in range(40)]


async def test_a_body_and_the_next_request_may_come_in_one_piece_or_in_any(start, connect):
    service = await start()
    message = put(b"hello") + get("/b") + put(b"", path="/c")
    for size in (1, 7, 1000):
        client = await connect(service.server)
        for n in range(0, len(message), size):
            await client.send(message[n : n + size])
            await asyncio.sleep(0)
        bodies = [(await client.answer())[2] for _ in range(3)]
        assert bodies == [b"PUT / hello", b"GET /b ", b"PUT /c "]


async def test_a_client_can_ask_for_the_end_of_the_connection(start, connect):
    service = await start()
    client = await connect(service.server)
    await client.send(get("/a", "Connection: close") + GET)
    status, headers, _ = await client.answer()
    assert (status, headers["connection"]) == (200, "close")
    assert await client.rest() == b""
    assert len(service.exchanges) == 1


async def test_an_old_client_gets_its_answer_and_the_end(start, connect):
    service = await start()
    client = await connect(service.server)
    await client.send(get("/a", version="1.0"))
    status, headers, body = await client.answer()
    assert (status, headers["connection"], body) == (200, "close", b"GET /a ")
    assert await client.rest() == b""


async def test_an_old_client_may_keep_its_connection(start, connect):
    service = await start()
    client = await connect(service.server)
    for _ in range(3):
        await client.send(get("/a", "Connection: keep-alive", version="1.0"))
        assert (await client.answer())[1]["connection"] == "keep-alive"


async def test_an_old_client_sees_the_end_of_a_stream_by_the_end_of_the_connection(start, connect):
    async def work(exchange):
        exchange.start(200)
        for n in range(3):
            exchange.write(b"data: %d\n\n" % n)
            await asyncio.sleep(0)
        exchange.end()

    service = await start(work)
    client = await connect(service.server)
    await client.send(get("/", "Connection: keep-alive", version="1.0"))
    status, headers = await client.head()
    assert status == 200
    assert "transfer-encoding" not in headers
    assert await client.rest() == b"data: 0\n\ndata: 1\n\ndata: 2\n\n"


async def test_a_stream_leaves_the_connection_to_the_next_request(start, connect):
    async def work(exchange):
        exchange.start(200)
        exchange.write(b"data: 1\n\n")
        exchange.end()

    service = await start(work)
    client = await connect(service.server)
    for _ in range(2):
        await client.send(GET + get("/b", method="HEAD"))
        assert (await client.answer())[2] == b"data: 1\n\n"
        assert (await client.answer("HEAD"))[0] == 200


async def test_a_head_request_gets_the_length_but_no_body(start, connect):
    service = await start()
    client = await connect(service.server)
    await client.send(get("/a", method="HEAD") + GET)
    status, headers, _ = await client.answer("HEAD")
    assert (status, headers["content-length"]) == (200, "8")
    assert (await client.answer())[2] == b"GET /a "


@pytest.mark.parametrize("status", [204, 304])
async def test_a_bodyless_answer_leaves_the_connection_in_step(start, connect, status):
    async def work(exchange):
        exchange.answer(status)

    service = await start(work)
    client = await connect(service.server)
    await client.send(GET + GET)
    for _ in range(2):
        assert (await client.answer())[0] == status


# --- refusals and early answers


@pytest.mark.parametrize(
    "raw", [b"hello\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\nHost: x\n\n", get("/", "A : b")]
)
async def test_what_is_not_http_is_refused_and_the_connection_ends(start, connect, raw):
    service = await start()
    client = await connect(service.server)
    await client.send(raw + GET)
    status, headers, body = await client.answer()
    assert (status, headers["connection"]) == (400, "close")
    assert body
    assert await client.rest() == b""
    assert service.exchanges == []


async def test_a_refusal_is_not_lost_to_what_the_client_still_sends(start, connect):
    service = await start()
    client = await connect(service.server)
    sending = asyncio.ensure_future(client.send(get("/", "A: " + "a" * 70_000), *[b"x" * 65536] * 60))
    assert (await client.answer())[0] == 431
    await asyncio.gather(sending, return_exceptions=True)
    assert await client.rest() == b""


async def test_an_early_answer_is_not_lost_to_the_rest_of_the_upload(start, connect):
    async def work(exchange):
        exchange.answer(413, b"too large")

    service = await start(work)
    for _ in range(5):
        client = await connect(service.server)
        sending = asyncio.ensure_future(client.send(put(b"", length=8 << 20), *[b"x" * 65536] * 128))
        status, headers, body = await client.answer()
        assert (status, headers["connection"], body) == (413, "close", b"too large")
        await asyncio.gather(sending, return_exceptions=True)
        assert await client.rest() == b""


async def test_the_rest_of_an_upload_is_never_the_next_request(start, connect):
    async def work(exchange):
        exchange.answer(413)

    service = await start(work)
    client = await connect(service.server)
    await client.send(put(GET[:9], length=10_000), GET[9:], GET)
    assert (await client.answer())[0] == 413
    assert await client.rest() == b""
    assert len(service.exchanges) == 1


@pytest.mark.parametrize("line", ["Connection: close", "Connection: keep-alive"])
async def test_a_large_answer_arrives_whole_however_slowly_it_is_read(start, connect, line, monkeypatch):
    monkeypatch.setattr("smg.net.http1.connection.LINGER_SECS", 0.05)
    size = 4 << 20

    async def work(exchange):
        exchange.answer(200, b"x" * size)

    service = await start(work, idle_timeout_secs=5, header_read_timeout_secs=0.1)
    client = await connect(service.server, receive_bytes=4096)
    await client.send(get("/", line))
    status, headers = await client.head()
    await asyncio.sleep(0.25)
    body = await client.reader.readexactly(int(headers["content-length"]))
    assert (status, len(body)) == (200, size)


# --- being invited


async def test_a_client_is_invited_when_its_body_is_asked_for(start, connect):
    ask = asyncio.Event()

    async def work(exchange):
        await ask.wait()
        exchange.answer(200, await exchange.read_body())

    service = await start(work)
    client = await connect(service.server)
    await client.send(put(b"", "Expect: 100-continue", length=5))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await client.reader.read(1)
    ask.set()
    assert (await client.head())[0] == 100
    await client.send(b"hello" + GET)
    assert (await client.answer())[2] == b"hello"
    assert (await client.answer())[2] == b""


async def test_a_client_that_is_refused_is_not_invited(start, connect):
    async def work(exchange):
        exchange.answer(401)

    service = await start(work)
    client = await connect(service.server)
    await client.send(put(b"", "Expect: 100-continue", length=5))
    assert (await client.answer())[0] == 401
    assert await client.rest() == b""


# --- stopping


async def test_stopping_ends_idle_connections_and_lets_busy_ones_finish(start, connect, until):
    release = asyncio.Event()

    async def work(exchange):
        if exchange.path == "/slow":
            await release.wait()
        exchange.answer(200, b"done")

    service = await start(work)
    fresh, idle, busy, streaming = [await connect(service.server) for _ in range(4)]
    await idle.send(GET)
    await idle.answer()
    await busy.send(get("/slow"))
    await streaming.send(get("/slow", method="PUT"))
    await until(lambda: service.server.busy == 2)
    port = service.server.port
    service.server.stop_listening()
    assert await fresh.rest() == b""
    assert await idle.rest() == b""
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    release.set()
    for client in (busy, streaming):
        status, headers, body = await client.answer()
        assert (status, headers["connection"], body) == (200, "close", b"done")
        assert await client.rest() == b""
        client.close()
    assert service.server.busy == 0
    await until(lambda: len(service.server.connections) == 0)


async def test_aborting_cuts_what_is_left(start, connect, until):
    service = await start(lambda exchange: asyncio.Event().wait())
    client = await connect(service.server)
    await client.send(GET)
    await until(lambda: service.server.busy == 1)
    service.server.abort()
    assert await client.rest() == b""
    await until(lambda: len(service.cancelled) == 1)
    assert service.server.busy == 0


async def test_many_clients_at_every_stage_leave_nothing_behind(start, connect, until):
    service = await start()
    stages = [
        b"",
        b"GE",
        GET[:-2],
        put(b"hel", length=5),
        get("/", "Transfer-Encoding: chunked") + b"5\r\nhel",
        GET,
        GET * 3 + b"G",
    ]
    for how in ("close", "half_close", "reset"):
        clients = [await connect(service.server) for _ in range(35)]
        for n, client in enumerate(clients):
            await client.send(stages[n % len(stages)])
        for client in clients:
            getattr(client, how)()
        await until(lambda: len(service.server.connections) == 0)
