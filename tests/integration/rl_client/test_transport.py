"""Both twins over real sockets, against whatever a server may do to them."""

import asyncio
import json

import pytest

from smg.rl import RL, FanoutError, RlError, aio
from support.waiting import until, within

CALL = {"worker_id": "w", "url": "http://e", "status": 200, "latency_ms": 7, "body": {"ok": 1}}
REPORT = {"results": {"w": CALL}, "failed": [], "total": 1, "succeeded": 1}
FAILURE = {"worker_id": "w", "url": "http://e", "error": "upstream_timeout", "message": "late"}
PARTIAL = {"results": {}, "failed": [FAILURE], "total": 1, "succeeded": 0}
NOBODY = {"protocol_version": 1, "workers": [], "total": 0}


async def hangs(turn):
    await turn.abandoned()


def body_of(size):
    return {**CALL, "body": "x" * size}


# --- requests


async def test_every_request_has_a_connection_of_its_own_that_is_gone_afterwards(client, stand_in, answers):
    server = await stand_in(answers(NOBODY))
    rl = client(server.url)
    for count in (1, 2, 3):
        assert await rl.workers() == []
        await until(lambda count=count: server.abandoned == count, "the end of the connection")
    assert server.connections == 3


async def test_what_a_call_says_arrives(client, stand_in, answers):
    server = await stand_in(answers(CALL))
    rl = client(server.url + "/prefix/", api_key="key")
    await rl.call("w", "/v1/op", {"é": [1]}, params={"tag": "a b&ü"})
    await rl.call("w", "op", method="GET")
    post, get = server.requests
    assert (post.method, post.path, post.query) == ("POST", "/prefix/v1/rl/workers/w/engine/v1/op", [("tag", "a b&ü")])
    assert post.json == {"é": [1]}
    assert post.headers["content-type"] == "application/json"
    assert (get.method, get.body) == ("GET", b"")
    assert "content-length" not in get.headers
    for request in (post, get):
        assert request.headers["authorization"] == "Bearer key"
        assert request.headers["host"] == f"127.0.0.1:{server.port}"


async def test_what_a_fan_out_says_arrives(client, stand_in, answers):
    server = await stand_in(answers(REPORT))
    selector = 'engine in (sglang, vllm), note="a&b=c %41é+"'
    await client(server.url).fanout("op", selector=selector, params={"level": 2})
    [request] = server.requests
    assert (request.method, request.path, request.body) == ("POST", "/v1/rl/engine/op", b"")
    assert request.query == [("level", "2"), ("selector", selector)]
    assert request.headers["content-length"] == "0"


async def test_threads_and_tasks_share_a_client(client, stand_in):
    async def play(turn):
        await turn.answer({**CALL, "body": turn.request.json})

    rl = client((await stand_in(play)).url)
    results = await asyncio.gather(*(rl.call("w", "op", {"number": number}) for number in range(8)))
    assert [result.body["number"] for result in results] == list(range(8))


# --- replies


async def test_a_reply_may_come_byte_by_byte_after_an_interim_one(client, stand_in, head):
    async def play(turn):
        data = json.dumps(CALL).encode()
        reply = head(103, "Link: <x>") + head(200, f"Content-Length: {len(data)}") + data
        for index in range(len(reply)):
            await turn.write(reply[index : index + 1])

    assert (await client((await stand_in(play)).url).call("w", "op")).body == {"ok": 1}


async def test_a_reply_without_a_length_ends_with_the_connection(client, stand_in, head):
    async def play(turn):
        await turn.write(head(200), json.dumps(CALL).encode())

    assert (await client((await stand_in(play)).url).call("w", "op")).body == {"ok": 1}


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_large_request_and_a_large_reply_pass(client, stand_in, head, chunked):
    size = 12 << 20

    async def play(turn):
        assert len(turn.request.json["tensor"]) == size
        data = json.dumps(body_of(size)).encode()
        if chunked:
            pieces = [data[start : start + 100_000] for start in range(0, len(data), 100_000)]
            await turn.write(head(200, "Transfer-Encoding: chunked"))
            await turn.write(*(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces), b"0\r\n\r\n")
        else:
            await turn.answer(data)

    server = await stand_in(play)
    result = await client(server.url).call("w", "op", {"tensor": "y" * size})
    assert result.body == "x" * size


async def test_the_reply_to_a_head_request_has_no_body_to_wait_for(client, stand_in, head):
    async def play(turn):
        await turn.write(head(200, "Content-Length: 100"))
        await turn.abandoned()

    with pytest.raises(RlError) as error:
        await client((await stand_in(play)).url).call("w", "op", method="HEAD")
    assert error.value.code == "unexpected_response"


async def test_a_body_may_be_refused_before_all_of_it_was_sent(client, stand_in, answers):
    server = await stand_in(answers({"error": "request_body_too_large", "message": "no"}, 413), reads_bodies=False)
    with pytest.raises(RlError) as error:
        await client(server.url).call("w", "op", {"tensor": "y" * (8 << 20)})
    assert (error.value.status, error.value.code) == (413, "request_body_too_large")


async def test_a_body_may_be_refused_by_cutting_the_connection_after_the_answer(client, stand_in, answers):
    async def refuse(turn):
        await turn.answer({"error": "request_body_too_large", "message": "no"}, 413)
        turn.writer.transport.abort()  # with unread bytes, which makes it a reset

    server = await stand_in(refuse, reads_bodies=False)
    with pytest.raises(RlError) as error:
        await client(server.url).call("w", "op", {"tensor": "y" * (32 << 20)})
    assert error.value.status == 413


async def test_errors_reach_the_caller(client, stand_in, answers):
    partial = client((await stand_in(answers(PARTIAL, 207))).url)
    with pytest.raises(FanoutError) as error:
        await partial.fanout("op", selector="a=b")
    assert error.value.result.failed[0].error == "upstream_timeout"
    assert (await partial.fanout("op", selector="a=b", allow_partial=True)).succeeded == 0
    off = client((await stand_in(answers(b"", 404))).url)
    for request in (off.workers(), off.worker("w"), off.call("w", "op"), off.fanout("op", selector="a=b")):
        with pytest.raises(RlError) as error:
            await request
        assert (error.value.status, error.value.code, error.value.payload) == (404, "http_error", "")


# --- where requests go


async def test_redirects_are_not_followed(client, stand_in, answers):
    other = await stand_in(answers(NOBODY))
    server = await stand_in(answers(b"", 307, f"Location: {other.url}/v1/rl/workers"))
    with pytest.raises(RlError) as error:
        await client(server.url, api_key="key").workers()
    assert (error.value.status, error.value.code) == (307, "unexpected_response")
    assert other.connections == 0


async def test_proxies_of_the_environment_are_not_asked(client, stand_in, answers, monkeypatch):
    proxy, server = await stand_in(answers(NOBODY)), await stand_in(answers(NOBODY))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy.url)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert await client(server.url).workers() == []
    assert (proxy.connections, server.connections) == (0, 1)


# --- cancellation, and what a client does while it waits


async def test_a_cancelled_call_ends_its_connection_at_once(stand_in):
    server = await stand_in(hangs)
    task = asyncio.create_task(aio.RL(server.url).call("w", "op"))
    await server.called()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: server.abandoned == 1, "the end of the connection")


async def test_a_bound_around_a_call_is_the_callers(stand_in):
    server = await stand_in(hangs)
    with pytest.raises(TimeoutError) as error:
        async with asyncio.timeout(0.2):
            await aio.RL(server.url).call("w", "op")
    assert "no complete reply" not in str(error.value)
    await until(lambda: server.abandoned == 1, "the end of the connection")


async def test_connections_are_probed_while_they_are_silent(stand_in, monkeypatch):
    probed = []
    for module in ("smg.rl.sockets", "smg.rl.aio.streams"):
        monkeypatch.setattr(f"{module}.keep_alive", probed.append)

    async def play(turn):
        await turn.answer(NOBODY)

    server = await stand_in(play)
    await asyncio.to_thread(RL(server.url).workers)
    await within(aio.RL(server.url).workers())
    assert len(probed) == 2
