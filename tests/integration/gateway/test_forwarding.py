"""What reaches a worker, and what reaches the client."""

import gzip
import json

import pytest

from support.bodies import CHAT, COMPLETIONS, EMBEDDINGS, GENERATE, MODEL, chat, encoded
from support.raw_engine import answers, streams
from support.waiting import until

ROUTES = {
    CHAT: chat(max_tokens=4),
    COMPLETIONS: {"model": MODEL, "prompt": "once", "max_tokens": 4},
    GENERATE: {"text": "once", "sampling_params": {"max_new_tokens": 4}},
    EMBEDDINGS: {"model": MODEL, "input": ["one", "two"]},
    "/v1/classify": {"model": MODEL, "input": "one"},
    "/v1/rerank": {"model": MODEL, "query": "one", "documents": ["one", "two"]},
    "/rerank": {"query": "one", "documents": ["one", "two"]},
}


@pytest.mark.parametrize("path", ROUTES)
async def test_every_inference_route_reaches_the_worker_s_route_of_the_same_path(stage, path):
    engine = await stage.engine()
    gateway = await stage.gateway(engine)
    answer = await gateway.post(path, ROUTES[path])
    assert answer.status == 200
    assert answer.worker == engine.url
    assert engine.machine.seen[path] == 1
    assert json.loads(answer.body)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, GENERATE])
async def test_a_stream_says_what_the_plain_answer_says(stage, path):
    engine = await stage.engine()
    gateway = await stage.gateway(engine)
    plain = (await gateway.post(path, ROUTES[path])).json
    streamed = await gateway.post(path, {**ROUTES[path], "stream": True})
    assert streamed.status == 200
    *events, last = streamed.events
    assert last == "[DONE]"
    events = [json.loads(event) for event in events]
    if path == GENERATE:
        assert events[-1]["text"] == plain["text"]
    elif path == CHAT:
        text = "".join(e["choices"][0]["delta"].get("content") or "" for e in events)
        assert text == plain["choices"][0]["message"]["content"]
    else:
        assert "".join(e["choices"][0]["text"] for e in events) == plain["choices"][0]["text"]


async def test_events_arrive_while_the_worker_still_writes(stage):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine)
    client = await gateway.send("POST", CHAT, chat(stream=True))
    call = await engine.call()
    await call.begin_stream()
    assert (await client.head()).status == 200
    for word in ("one", "two"):
        await call.event(word)
        assert await client.chunk() == f"data: {word}\n\n".encode()
    await call.end_stream()
    assert await client.chunk() == b""


async def test_a_stream_is_relayed_byte_for_byte_whatever_is_in_it(stage):
    pieces = [
        b"data: {not json\n\n",
        b": comment\r\n\r\nda",
        b"ta: \xff\xfe\n",
        b"\nid: 7\nretry: 10\n\n",
        b"data: [DONE]\n\n",
    ]

    async def odd(call):
        await call.begin_stream()
        for piece in pieces:
            await call.chunk(piece)
        await call.end_stream()

    gateway = await stage.gateway(await stage.raw_engine(odd))
    answer = await gateway.chat(chat(stream=True))
    assert answer.body == b"".join(pieces)


async def test_a_body_that_needs_no_edit_reaches_the_worker_as_it_was_sent(stage):
    engine = await stage.raw_engine(answers())
    gateway = await stage.gateway(engine)
    body = (
        b'{ "model":"m",\t"messages" : [{"role":"user","content":"\\u00e9 \xc3\xa9","x":1e-7}],'
        b'"temperature":0.950,"seed":12345678901234567890,"odd":{"b":[1.0,-0,1E+2]} }\n'
    )
    assert (await gateway.chat(body)).status == 200
    assert engine.calls[0].body == body


async def test_only_listed_headers_reach_the_worker_and_the_query_does_not(stage):
    engine = await stage.raw_engine(answers())
    gateway = await stage.gateway(engine)
    sent = {
        "Authorization": "Bearer mine",
        "anthropic-version": "1",
        "anthropic-beta": "2",
        "X-Request-ID": "call-1",
        "X-Correlation-ID": "corr-1",
        "X-Request-ID-Turn": "3",
        "traceparent": "00-1-2-01",
        "tracestate": "a=b",
        "X-SMG-Routing-Key": "key",
    }
    kept_back = [
        "Cookie: a=b",
        "User-Agent: me",
        "Accept: */*",
        "X-Secret: s",
        "X-Forwarded-For: 1.2.3.4",
        "TE: trailers",
    ]
    answer = await gateway.post(f"{CHAT}?api-version=1", chat(), [*(f"{k}: {v}" for k, v in sent.items()), *kept_back])
    assert answer.status == 200
    call = engine.calls[0]
    assert call.path == CHAT
    expected = {name.lower(): value for name, value in sent.items()}
    own = {
        "host": f"127.0.0.1:{engine.port}",
        "content-type": "application/json",
        "content-length": str(len(call.body)),
    }
    assert sorted(call.fields) == sorted({**expected, **own}.items())


async def test_a_request_id_of_the_gateway_s_own_is_not_sent_to_the_worker(stage):
    engine = await stage.raw_engine(answers())
    gateway = await stage.gateway(engine)
    answer = await gateway.chat(chat())
    assert answer.headers["x-request-id"].startswith("chatcmpl-")
    assert "x-request-id" not in engine.calls[0].headers


async def test_the_worker_s_key_fills_in_for_a_caller_without_one(stage):
    engine = await stage.raw_engine(answers())
    gateway = await stage.gateway(ready=False)
    await gateway.post("/workers", {"url": engine.url, "api_key": "engine-key"})
    await gateway.registered(1)
    await gateway.chat(chat())
    await gateway.chat(chat(), ["authorization: Bearer mine"])
    assert [call.headers["authorization"] for call in engine.calls] == ["Bearer engine-key", "Bearer mine"]


async def test_headers_of_the_worker_pass_except_those_of_the_hop_and_the_gateway_s_own(stage):
    engine = await stage.raw_engine(
        answers(
            200,
            b'{"ok":1}',
            "x-engine: 7",
            "set-cookie: a=1",
            "set-cookie: b=2",
            "date: Mon, 01 Jan 2024 00:00:00 GMT",
            "connection: keep-alive, x-hop",
            "x-hop: 1",
            "keep-alive: timeout=5",
            "x-request-id: forged",
            "x-smg-error-code: forged",
            "x-smg-routed-worker-id: forged",
        )
    )
    gateway = await stage.gateway(engine)
    answer = await gateway.chat(chat(), ["x-request-id: mine"])
    assert sorted(answer.fields) == sorted(
        [
            ("content-type", "application/json"),
            ("x-engine", "7"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
            ("date", "Mon, 01 Jan 2024 00:00:00 GMT"),
            ("x-smg-routed-worker-id", engine.url),
            ("x-request-id", "mine"),
            ("content-length", "8"),
        ]
    )


async def test_a_compressed_answer_keeps_its_coding_and_its_bytes(stage):
    body = gzip.compress(b'{"ok":true}')
    gateway = await stage.gateway(await stage.raw_engine(answers(200, body, "content-encoding: gzip")))
    answer = await gateway.chat(chat())
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.body == body


@pytest.mark.parametrize("status", [201, 302, 400, 404, 409, 422, 501])
async def test_an_answer_that_is_not_retried_is_relayed_as_it_is(stage, status):
    headers = ["location: http://elsewhere/"] if status == 302 else []
    engine = await stage.raw_engine(answers(status, b'{"error":"no"}', *headers))
    gateway = await stage.gateway(engine, await stage.engine())
    answers_seen = [await gateway.chat(chat()) for _ in range(2)]
    mine = next(a for a in answers_seen if a.worker == engine.url)
    assert (mine.status, mine.body) == (status, b'{"error":"no"}')
    assert "x-smg-error-code" not in mine.headers
    assert len(engine.calls) == 1


async def test_a_bodyless_answer_stays_without_a_body(stage):
    async def nothing(call):
        await call.begin(204)
        call.finish(keeps_connection=True)

    engine = await stage.raw_engine(nothing)
    gateway = await stage.gateway(engine)
    client = await gateway.connect()
    for _ in range(2):  # the second shows that nothing was left on the connection
        await client.send("POST", CHAT, chat())
        answer = await client.answer()
        assert answer.status == 204
        assert "content-length" not in answer.headers


async def test_an_event_stream_decides_itself_whether_it_is_streamed(stage):
    """What the worker answers counts, not what the request asked for."""
    gateway = await stage.gateway(await stage.raw_engine(streams("unasked"), answers(200, b'{"plain":1}')))
    assert (await gateway.chat(chat())).events == ["unasked"]
    plain = await gateway.chat(chat(stream=True))
    assert plain.json == {"plain": 1}
    assert plain.headers["content-length"]


async def test_a_silent_stream_is_kept_alive_with_comments(stage):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine, sse_keepalive_secs=0.1)
    client = await gateway.send("POST", CHAT, chat(stream=True))
    call = await engine.call()
    await call.begin_stream()
    await client.head()
    for _ in range(2):
        assert await client.chunk() == b": ping\n\n"
    await call.event("at last")
    await call.end_stream()
    rest = (await client.rest_of_body()).replace(b": ping\n\n", b"")
    assert rest == b"data: at last\n\n"


async def test_a_rejected_stream_is_an_ordinary_answer(stage):
    gateway = await stage.gateway(await stage.raw_engine(answers(400, b'{"error":{"message":"too long"}}')))
    answer = await gateway.chat(chat(stream=True))
    assert answer.status == 400
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["error"]["message"] == "too long"


async def test_connections_to_a_worker_are_used_again(stage):
    engine = await stage.raw_engine(answers())
    gateway = await stage.gateway(engine)
    client = await gateway.connect()
    for _ in range(5):
        await client.send("POST", CHAT, chat())
        assert (await client.answer()).status == 200
    assert engine.connections == 1


async def test_pipelined_requests_are_answered_in_their_order(stage):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine)
    client = await gateway.connect()
    for number in range(3):
        await client.send("POST", CHAT, chat(str(number)))
    for number in range(3):
        call = await engine.call()
        assert call.json["messages"][0]["content"] == str(number)
        await call.answer(200, {"number": number})
        assert (await client.answer()).json == {"number": number}


async def test_a_deprecated_token_limit_is_handed_on_beside_the_new_one(stage):
    engine = await stage.raw_engine(answers())
    gateway = await stage.gateway(engine)
    await gateway.chat(chat(max_tokens=7, reasoning_effort=50))
    assert engine.calls[0].json == chat(max_tokens=7, max_completion_tokens=7, reasoning_effort="50")


async def test_the_worker_s_load_is_there_until_the_last_byte_of_its_answer(stage):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine)
    client = await gateway.send("POST", CHAT, chat(stream=True))
    call = await engine.call()
    await call.begin_stream()
    await call.event("one")
    await client.head()
    assert gateway.worker(engine).load == 1
    assert (await gateway.get("/workers")).json["workers"][0]["load"] == 1
    await call.end_stream()
    await until(lambda: gateway.worker(engine).load == 0)


async def test_head_is_answered_like_get_without_a_body(stage):
    gateway = await stage.gateway(await stage.engine())
    client = await gateway.connect()
    for target in ("/v1/models", "/readiness", "/workers", "/health"):
        await client.send("HEAD", target)
        answer = await client.answer()
        assert answer.status == 200
        assert int(answer.headers["content-length"]) > 0


async def test_information_routes_are_passed_to_the_first_ready_worker(stage):
    engine = await stage.engine(api_key="engine-key")
    gateway = await stage.gateway(ready=False)
    assert (await gateway.get("/get_server_info")).code == "no_workers"
    await gateway.post("/workers", {"url": engine.url, "api_key": "engine-key"})
    await gateway.registered(1)
    assert (await gateway.get("/get_server_info")).json["served_model_name"] == MODEL
    assert (await gateway.get("/get_model_info")).status == 200
    assert (await gateway.get("/health_generate")).status == 200


async def test_an_engine_s_refusal_is_the_client_s_answer(stage):
    engine = await stage.engine(engine="vllm", context_tokens=4)
    gateway = await stage.gateway(engine)
    answer = await gateway.chat(encoded(chat("far too long for so small a context")))
    assert answer.status == 400
    assert "x-smg-error-code" not in answer.headers
    assert answer.worker == engine.url
