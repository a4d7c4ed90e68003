"""Who gets in, in which order, and who is told to come back later."""

import time

from support.bodies import CHAT, chat
from support.waiting import until


async def full(stage, **settings):
    """A gateway with one permit, which a request holds: the gateway, the engine, that request's client and call."""
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine, max_concurrent_requests=1, **settings)
    client = await gateway.send("POST", CHAT, chat("first"))
    return gateway, engine, client, await engine.call()


async def test_waiting_requests_are_served_first_come_first_served(stage):
    gateway, engine, _, call = await full(stage)
    clients = []
    for number in range(10):
        clients.append(await gateway.send("POST", CHAT, chat(str(number))))
        await until(lambda count=number + 1: gateway.permits == (1, count))
    for number in range(10):
        await call.answer()
        call = await engine.call()
        assert call.json["messages"][0]["content"] == str(number)
        assert gateway.permits == (1, len(clients) - number - 1)
    await call.answer()
    assert [(await client.answer()).status for client in clients] == [200] * 10


async def test_one_more_than_the_queue_holds_is_refused_at_once(stage):
    gateway, _, _, _ = await full(stage, queue_size=2)
    for count in (1, 2):
        await gateway.send("POST", CHAT, chat())
        await until(lambda count=count: gateway.permits == (1, count))
    answer = await gateway.chat(chat())
    assert (answer.status, answer.code) == (429, "admission_queue_full")
    assert answer.headers["retry-after"] == "2"
    scrape = await gateway.scrape()
    assert scrape.value("smg_admission_queue_rejected_total", reason="full") == 1
    assert scrape.value("smg_admission_inflight") == 1
    assert scrape.value("smg_admission_queue_depth") == 2


async def test_without_a_queue_nobody_waits(stage):
    gateway, _, client, call = await full(stage, queue_size=0)
    answer = await gateway.chat(chat())
    assert (answer.status, answer.code) == (429, "admission_queue_full")
    await call.answer()
    assert (await client.answer()).status == 200
    await gateway.settled()


async def test_who_waits_too_long_is_told_to_come_back(stage):
    gateway, engine, client, call = await full(stage, queue_timeout_secs=0.1)
    answer = await gateway.chat(chat())
    assert (answer.status, answer.code) == (503, "admission_queue_timeout")
    assert answer.headers["retry-after"] == "2"
    assert gateway.permits == (1, 0)
    await call.answer()
    await client.answer()
    await gateway.settled()
    assert len(engine.calls) == 1
    assert (await gateway.scrape()).value("smg_admission_queue_rejected_total", reason="timeout") == 1


async def test_a_permit_is_held_until_the_last_byte_of_a_stream(stage):
    gateway, engine, client, call = await full(stage)
    await call.begin_stream()
    await call.event("one")
    await client.head()
    waiting = await gateway.send("POST", CHAT, chat("second"))
    await until(lambda: gateway.permits == (1, 1))
    await call.event("two")
    assert gateway.permits == (1, 1)
    await call.end_stream()
    second = await engine.call()
    await second.answer()
    assert (await waiting.answer()).status == 200


async def test_every_kind_of_end_passes_the_permit_on(stage):
    """A refusal, an error of the worker's, an error of ours and a client that leaves: each lets the next one in."""
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine, max_concurrent_requests=1, disable_retries=True, policy="cache_aware")
    bad_body = await gateway.send("POST", CHAT, b"{")
    assert (await bad_body.answer()).status == 400
    unknown = await gateway.send("POST", CHAT, chat(model="nobody"))
    assert (await unknown.answer()).status == 404
    for ending in ("reset", "close", "answer"):
        client = await gateway.send("POST", CHAT, chat())
        call = await engine.call()
        assert gateway.permits == (1, 0)
        if ending == "answer":
            await call.answer(500)
        else:
            getattr(call, ending)()
        assert (await client.answer()).status == 500
    client = await gateway.send("POST", CHAT, chat())
    await engine.call()
    client.reset()
    await gateway.settled()
    client = await gateway.send("POST", CHAT, chat())
    await (await engine.call()).answer()
    assert (await client.answer()).status == 200


async def test_only_inference_needs_a_permit(stage):
    gateway, _, _, _ = await full(stage, queue_size=0)
    for target in ("/health", "/liveness", "/readiness", "/v1/models", "/workers"):
        assert (await gateway.get(target)).status == 200


async def test_a_caller_without_the_key_takes_no_permit(stage):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine, max_concurrent_requests=1, queue_size=0, api_key="the-right-key")
    first = await gateway.send("POST", CHAT, chat(), ["authorization: Bearer the-right-key"])
    call = await engine.call()
    assert (await gateway.chat(chat())).status == 401
    assert (await gateway.chat(chat(), ["authorization: Bearer the-right-key"])).status == 429
    await call.answer()
    assert (await first.answer()).status == 200


async def test_the_body_of_a_waiting_request_is_not_asked_for(stage):
    gateway, engine, _, call = await full(stage)
    client = await gateway.connect()
    body = b'{"model":"m","messages":[]}'
    await client.send("POST", CHAT, None, ["content-type: application/json", "expect: 100-continue"], length=len(body))
    await until(lambda: gateway.permits == (1, 1))
    assert client.reader._buffer == b""
    await call.answer()
    interim = await client.reader.readuntil(b"\r\n\r\n")
    assert interim.startswith(b"HTTP/1.1 100 ")
    await client.write(body)
    assert (await client.answer()).status == 400  # no messages
    assert len(engine.calls) == 1


async def test_no_limit_means_no_gate(stage):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine, max_concurrent_requests=0)
    clients = [await gateway.send("POST", CHAT, chat()) for _ in range(20)]
    for _ in clients:
        await engine.call()
    assert gateway.loads == [20]
    for client in clients:
        client.close()
    await gateway.settled()
    assert (await gateway.scrape()).matching("smg_admission_inflight") == []


async def test_a_rate_admits_a_burst_and_then_what_it_refills(stage):
    gateway = await stage.gateway(
        await stage.engine(),
        max_concurrent_requests=5,
        rate_limit_tokens_per_second=1,
        queue_timeout_secs=0.0001,
    )
    started = time.monotonic()
    statuses = [(await gateway.chat(chat(max_tokens=1))).status for _ in range(30)]
    refilled = time.monotonic() - started
    assert statuses[:5] == [200] * 5
    assert statuses.count(200) <= 5 + refilled + 1
    assert set(statuses) <= {200, 429}
