"""HTTP/2 to workers through whole gateways: chosen at registration, used for every request, left where it fails."""

import asyncio
import json
from types import SimpleNamespace

import pytest

from smg.fleet.spec import HttpPoolSpec, WorkerSpec
from support.bodies import CHAT, chat, padded_chat
from support.forms import FORM, file, form, model, parts_of


async def openly(call):
    """A worker in good order: answers its health, echoes what it is asked."""
    if call.path == "/health":
        await call.answer(200, b"OK")
        return
    body = await call.read()
    await call.answer(
        200, json.dumps({"got": len(body), "content": json.loads(body)["messages"][0]["content"]}).encode()
    )


@pytest.fixture
async def http2_gateway(stage):
    """A gateway in front of workers, which is to try HTTP/2."""

    async def start(*workers, **settings):
        engines = [SimpleNamespace(url=worker.url) for worker in workers]
        return await stage.gateway(*engines, **{"upstream_http2": True, **settings})

    return start


async def rows(gateway):
    return (await gateway.get("/workers")).json["workers"]


async def test_a_worker_that_answers_http2_is_spoken_to_in_it(start_worker, http2_gateway):
    worker = await start_worker(openly)
    gateway = await http2_gateway(worker)
    assert (await rows(gateway))[0]["http2"] is True
    assert (await gateway.scrape()).value("smg_worker_http2", worker=worker.url) == 1
    answer = await gateway.chat(chat("hello"), ["authorization: Bearer k", "x-request-id: r7", "x-other: 1"])
    assert (answer.status, answer.json["content"]) == (200, "hello")
    assert answer.worker == worker.url
    assert worker.http1_calls == 0
    headers = worker.calls[-1].headers
    assert headers[b":path"].decode() == CHAT
    assert (headers[b"authorization"], headers[b"x-request-id"]) == (b"Bearer k", b"r7")
    assert not {b"x-other", b"connection", b"host", b"transfer-encoding"} & set(headers)


@pytest.mark.parametrize("trouble", ["speaks HTTP/1.1 alone", "hangs", "refuses", "answers 500", "resets", "cuts"])
async def test_a_worker_on_which_http2_does_not_work_stays_on_http1(start_worker, http2_gateway, trouble):
    async def behave(call):
        if trouble == "answers 500":
            await call.answer(500)
        elif trouble == "resets":
            call.reset()
        elif trouble == "cuts":
            call.line.transport.abort()
        else:
            await call.reset_by_peer.wait()

    worker = await start_worker(behave, http2=trouble != "speaks HTTP/1.1 alone", says_nothing=trouble == "hangs")
    gateway = await http2_gateway(worker)
    assert (await rows(gateway))[0]["http2"] is False
    assert (await gateway.scrape()).value("smg_worker_http2", worker=worker.url) == 0
    assert (await gateway.chat(chat("hello"))).status == 200
    assert worker.http1_calls == 1


async def test_a_simulated_engine_stays_on_http1(stage):
    engine = await stage.engine()
    gateway = await stage.gateway(engine, upstream_http2=True)
    assert (await rows(gateway))[0]["http2"] is False
    assert (await gateway.chat(chat("hello"))).status == 200


async def test_without_the_flag_nobody_is_asked(start_worker, http2_gateway):
    worker = await start_worker(openly)
    gateway = await http2_gateway(worker, upstream_http2=False)
    assert (await gateway.chat(chat("hello"))).status == 200
    assert not worker.calls
    assert worker.http1_calls == 1


@pytest.mark.parametrize("own", [True, False])
async def test_a_workers_own_setting_decides_without_a_question(start_worker, stage, until, own):
    worker = await start_worker(openly)
    gateway = await stage.gateway(upstream_http2=not own)
    gateway.gateway._registrar.add(WorkerSpec(url=worker.url, http_pool=HttpPoolSpec(http2=own)))
    await until(lambda: gateway.gateway.registry.snapshot.workers)
    assert not worker.calls
    assert (await rows(gateway))[0]["http2"] is own
    assert (await gateway.chat(chat("hello"))).status == 200
    assert (len(worker.calls), worker.http1_calls) == ((1, 0) if own else (0, 1))


async def test_a_worker_that_stops_speaking_http2_is_spoken_to_in_http1(start_worker, http2_gateway):
    worker = await start_worker(openly)
    gateway = await http2_gateway(worker, upstream_pool_idle_timeout_secs=0.01)
    assert (await gateway.chat(chat("hello"))).status == 200
    worker.http2 = False
    for line in worker.h2_lines:
        line.transport.abort()
    assert [(await gateway.chat(chat("hello"))).status for _ in range(3)] == [200] * 3
    assert worker.http1_calls == 3
    assert (await rows(gateway))[0]["http2"] is False


async def test_many_clients_share_few_connections_and_nobody_gets_anothers_answer(start_worker, http2_gateway):
    worker = await start_worker(openly)
    gateway = await http2_gateway(worker)
    answers = await asyncio.gather(*[gateway.chat(chat(f"number {n}")) for n in range(100)])
    assert [answer.json["content"] for answer in answers] == [f"number {n}" for n in range(100)]
    assert len({id(call.line) for call in worker.calls if call.path == CHAT}) == 1


async def test_events_are_relayed_as_they_come(start_worker, http2_gateway):
    steps = asyncio.Queue()

    async def behave(call):
        if call.path == "/health":
            await call.answer(200)
            return
        await call.begin_stream()
        while event := await steps.get():
            await call.event(event)
        call.end()

    worker = await start_worker(behave)
    gateway = await http2_gateway(worker)
    client = await gateway.send("POST", CHAT, chat("hello", stream=True))
    assert (await client.head()).status == 200
    for event in ("one", "two", "[DONE]"):
        steps.put_nowait(event)
        assert await client.chunk() == f"data: {event}\n\n".encode()
    steps.put_nowait(None)
    assert await client.chunk() == b""


async def test_a_stream_that_breaks_ends_with_an_error_event(start_worker, http2_gateway):
    async def behave(call):
        if call.path == "/health":
            await call.answer(200)
            return
        await call.begin_stream()
        await call.event("one")
        call.reset()

    worker = await start_worker(behave)
    gateway = await http2_gateway(worker)
    answer = await gateway.chat(chat("hello", stream=True))
    assert answer.events[0] == "one"
    assert any('"error"' in event for event in answer.events)


async def test_a_client_that_leaves_resets_its_stream_and_no_other(start_worker, http2_gateway, until, within):
    go = asyncio.Event()

    async def behave(call):
        if call.path == "/health":
            await call.answer(200)
            return
        await call.read()
        await call.begin_stream()
        await call.event("one")
        await go.wait()
        if not call.reset_by_peer.is_set():
            await call.data(b"data: two\n\n", end=True)

    worker = await start_worker(behave)
    gateway = await http2_gateway(worker)
    leaving, staying = [await gateway.send("POST", CHAT, chat(name, stream=True)) for name in ("leaving", "staying")]
    for client in (leaving, staying):
        await client.head()
        await client.chunk()
    first, second = [call for call in worker.calls if call.path == CHAT]
    gone = first if b"leaving" in first.body else second
    leaving.reset()
    await within(gone.reset_by_peer.wait())
    go.set()
    assert await staying.chunk() == b"data: two\n\n"
    assert len({id(call.line) for call in (first, second)}) == 1


async def test_a_client_that_does_not_read_holds_its_worker_back(start_worker, http2_gateway, until):
    sent = 0
    over = False

    async def behave(call):
        nonlocal sent, over
        if call.path == "/health":
            await call.answer(200)
            return
        await call.begin_stream()
        for _ in range(512):
            await call.data(b"data: %b\n\n" % (b"x" * 32768))
            sent += 32768
        call.end()
        over = True

    worker = await start_worker(behave)
    gateway = await http2_gateway(worker)
    client = await gateway.connect(receive_bytes=4096)
    await client.send("POST", CHAT, chat("hello", stream=True))
    await client.head()
    seen = -1
    while seen != sent:  # until nothing moves any more
        seen = sent
        await asyncio.sleep(0.1)
    assert not over
    assert sent < 8 << 20
    size = 0
    while piece := await client.chunk():
        size += len(piece)
    assert size == 512 * (32768 + 8)


async def test_a_large_body_passes_through_as_it_comes(start_worker, http2_gateway):
    worker = await start_worker(openly, initial_window_size=5000)
    gateway = await http2_gateway(worker, policy="round_robin", max_buffered_request_bytes=1000)
    answer = await gateway.chat(padded_chat(300_000))
    assert (answer.status, answer.json["got"]) == (200, 300_000)


async def test_an_attempt_that_a_worker_cuts_is_made_at_another(start_worker, http2_gateway):
    async def cuts(call):
        if call.path == "/health":
            await call.answer(200)
        else:
            call.line.transport.abort()

    broken, good = await start_worker(cuts), await start_worker(openly)
    gateway = await http2_gateway(broken, good)
    answers = [await gateway.chat(chat("hello")) for _ in range(4)]
    assert {(answer.status, answer.worker) for answer in answers} == {(200, good.url)}


async def test_an_upload_that_was_kept_is_sent_at_the_windows_pace(start_worker, http2_gateway):
    async def listens(call):
        if call.path == "/health":
            await call.answer(200)
            return
        await call.answer(200, json.dumps({"got": len(await call.read())}).encode())

    worker = await start_worker(listens, initial_window_size=5000)
    gateway = await http2_gateway(worker)
    audio = bytes(3 * 1024 * 1024)
    answer = await gateway.post("/v1/audio/transcriptions", form(file(audio), model()), [FORM])
    assert answer.status == 200
    (call,) = [call for call in worker.calls if call.path == "/v1/audio/transcriptions"]
    assert answer.json["got"] == int(call.headers[b"content-length"]) == len(call.body)
    assert parts_of(call.headers[b"content-type"].decode(), call.body)[-1] == ("file", "a.wav", audio)
