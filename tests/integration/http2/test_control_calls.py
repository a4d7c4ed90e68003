"""Control calls to workers of HTTP/2: a connection each, made once, cut short where there is enough."""

import asyncio

import pytest
from h2.errors import ErrorCodes

from smg.errors import UpstreamError, UpstreamTimeout
from smg.net.address import address_of
from smg.net.capture import CallLimits, Captured, Outgoing
from support.calls import capture

LIMITS = CallLimits(timeout_secs=5, connect_timeout_secs=5, max_bytes=1000)
BIG = bytes(range(256)) * 8192


def call(worker, body=b"", limits=LIMITS, method="POST"):
    request = Outgoing(method, "/op?a", [(b"accept", b"*/*"), (b"x-request-id", b"1")], body)
    return capture(address_of(worker.url), request, limits, http2=True)


async def left(worker, until):
    """Every connection has been ended, in good order."""
    await until(lambda: all(line.over for line in worker.lines), "the end of all connections")
    assert not worker.broken_rules


async def test_a_call_is_a_stream_on_a_connection_of_its_own(start_worker, until):
    worker = await start_worker()
    assert await asyncio.gather(call(worker, b"one"), call(worker, b"two")) == [
        Captured(200, b"application/json", b"one", truncated=False),
        Captured(200, b"application/json", b"two", truncated=False),
    ]
    assert len(worker.lines) == 2
    assert worker.calls[0].headers == {
        b":method": b"POST",
        b":scheme": b"http",
        b":authority": b"127.0.0.1:%d" % worker.port,
        b":path": b"/op?a",
        b"accept": b"*/*",
        b"x-request-id": b"1",
        b"content-length": b"3",
    }
    await left(worker, until)


@pytest.mark.parametrize(("method", "body"), [("GET", b""), ("POST", b""), ("POST", BIG)])
async def test_the_body_arrives_as_it_is(start_worker, until, method, body):
    received = []

    async def behave(call):
        received.append(await call.read())
        await call.answer()

    worker = await start_worker(behave)
    assert (await call(worker, body, method=method)).body == b'{"ok":true}'
    assert received == [body]
    assert (b"content-length" in worker.calls[0].headers) is (method == "POST")
    await left(worker, until)


async def test_beyond_the_bound_the_stream_is_ended_at_once(start_worker, until):
    async def behave(call):
        call.begin(200, (b"content-type", b"text/plain"))
        await call.data(b"x" * 1001)
        await call.reset_by_peer.wait()

    worker = await start_worker(behave)
    assert await call(worker) == Captured(200, b"text/plain", b"x" * 1000, truncated=True)
    await left(worker, until)


async def test_the_answer_to_a_head_is_over_with_its_head(start_worker, until):
    async def behave(call):
        call.begin(200, (b"content-length", b"1000"))
        await call.reset_by_peer.wait()

    worker = await start_worker(behave)
    assert await call(worker, method="HEAD") == Captured(200, b"", b"", truncated=False)
    await left(worker, until)


@pytest.mark.parametrize("end", [ErrorCodes.INTERNAL_ERROR, ErrorCodes.REFUSED_STREAM, "cut"])
async def test_a_call_that_is_lost_is_not_made_again(start_worker, until, end):
    async def behave(call):
        await call.read()
        if end == "cut":
            call.line.transport.abort()
        else:
            call.reset(end)

    worker = await start_worker(behave)
    for body in (b"", b"{}"):
        with pytest.raises(UpstreamError):
            await call(worker, body)
    assert len(worker.calls) == 2
    await left(worker, until)


@pytest.mark.parametrize("begins", [False, True])
async def test_one_deadline_is_over_all_of_it(start_worker, until, begins):
    async def behave(call):
        if begins:
            call.begin(200)
        await call.reset_by_peer.wait()

    worker = await start_worker(behave)
    with pytest.raises(UpstreamTimeout):
        await call(worker, limits=CallLimits(0.1, 5, 1000))
    await left(worker, until)


async def test_cancelling_ends_the_connection(start_worker, until):
    async def behave(call):
        await call.reset_by_peer.wait()

    worker = await start_worker(behave)
    calling = asyncio.ensure_future(call(worker))
    await until(lambda: worker.calls, "the call at the worker")
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    assert calling.cancelled()
    await left(worker, until)


async def test_a_worker_that_does_not_speak_it_is_called_in_http1(start_worker):
    worker = await start_worker(http2=False)
    assert (await call(worker, b"{}")).body == b'{"ok":true}'
    assert (worker.http1_calls, worker.calls) == (1, [])


async def test_the_control_plane_speaks_to_a_worker_as_requests_do(start_worker, stage):
    async def behave(call):
        await call.answer(200, await call.read() or b"{}")

    worker = await start_worker(behave)
    gateway = await stage.gateway(upstream_http2=True, enable_rl=True)
    await gateway.post("/workers", {"url": worker.url, "http_pool": {"http2": True}})
    await gateway.registered(1)
    answer = await gateway.post("/v1/rl/engine/op?selector=id!%3Dx", {"a": 1})
    (result,) = answer.json["results"].values()
    assert (answer.status, result["body"]) == (200, {"a": 1})
    assert worker.http1_calls == 0
    assert worker.calls[-1].path == "/op"
