"""Prefill/decode pairs whose engines speak HTTP/2: both legs share nothing but the gateway."""

import asyncio

import pytest

from support.bodies import CHAT, chat
from support.client import LEAVING
from support.waiting import until, within


class Leg:
    """An engine of a pair; the test answers its requests."""

    def __init__(self):
        self.calls = asyncio.Queue()

    async def behave(self, call):
        if call.path == "/health":
            await call.answer(200, b"OK")
            return
        await call.read()
        self.calls.put_nowait(call)

    async def call(self):
        return await within(self.calls.get())


@pytest.fixture
async def pair(stage, start_worker):
    """A gateway in front of a pair, and the two engines."""
    legs = Leg(), Leg()
    prefill, decode = [await start_worker(leg.behave) for leg in legs]
    gateway = await stage.gateway(ready=False, upstream_http2=True, pd_disaggregation=True, disable_retries=True)
    for kind, worker in (("prefill", prefill), ("decode", decode)):
        spec = {"url": worker.url, "worker_type": kind, "runtime_type": "sglang"}
        assert (await gateway.post("/workers", spec)).status == 202
    await gateway.registered(2)
    assert all(worker.http2 for worker in gateway.workers)
    return gateway, *legs


async def test_decode_s_stream_is_relayed_and_prefill_s_is_read_to_its_end(pair):
    gateway, prefill, decode = pair
    client = await gateway.send("POST", CHAT, chat(stream=True))
    filling, decoding = await prefill.call(), await decode.call()
    await filling.begin_stream()
    await decoding.begin_stream()
    await client.head()
    for event in ("one", "two", "three"):
        await decoding.event(event)
        assert await client.chunk() == b"data: %b\n\n" % event.encode()
    decoding.end()
    assert await client.chunk() == b""
    for _ in range(20):
        await filling.data(b"x" * 50_000)  # more than its window holds
    filling.end()
    await gateway.settled()
    assert filling.reset_code is None
    scrape = await gateway.scrape()
    assert scrape.value("smg_pd_ttft_seconds_count") == 1
    assert scrape.value("smg_pd_prefill_duration_seconds_count") == 1


async def test_a_refusal_of_prefill_resets_decode_s_stream(pair):
    gateway, prefill, decode = pair
    client = await gateway.send("POST", CHAT, chat())
    filling, decoding = await prefill.call(), await decode.call()
    await filling.answer(503, b"busy")
    answer = await client.answer()
    assert (answer.status, answer.code) == (503, "prefill_unavailable")
    await within(decoding.reset_by_peer.wait())


@pytest.mark.parametrize("leave", LEAVING.values(), ids=LEAVING)
@pytest.mark.parametrize("begun", [False, True])
async def test_a_client_that_leaves_resets_both_streams(pair, leave, begun):
    gateway, prefill, decode = pair
    client = await gateway.send("POST", CHAT, chat(stream=True))
    calls = await prefill.call(), await decode.call()
    if begun:
        for call in calls:
            await call.begin_stream()
        await client.head()
    leave(client)
    for call in calls:
        await within(call.reset_by_peer.wait())
    await until(lambda: gateway.loads == [0, 0])
