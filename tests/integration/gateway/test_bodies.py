"""Bodies: what is refused, what is read, what is streamed, and how large and how late they may be."""

import json

import pytest

from support.bodies import CHAT, COMPLETIONS, MODEL, chat, padded_chat
from support.raw_engine import answers
from support.waiting import until

# Retries off and a policy that reads no prompt: bodies pass through as they come.
STREAMED = {"disable_retries": True}


# --- refusals


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"model":"m"}',
        b'{"messages":[]}',
        b'{"model":1,"messages":[]}',
        b'{"model":"m","messages":"hello"}',
        b'{"model":"m","messages":[{"role":"nobody","content":"x"}]}',
        b'{"model":"m","messages":[{"role":"user","content":"\xff"}]}',
        b'{"model":"m","messages":[],"temperature":"hot"}',
        b'{"model":"m","messages":[],"temperature":NaN}',
        b"[" * 100_000,
    ],
    ids=range(13),
)
async def test_what_is_no_request_is_refused_before_any_worker(stage, body):
    engine = await stage.engine()
    gateway = await stage.gateway(engine)
    answer = await gateway.chat(body)
    assert answer.status == 400
    error = answer.json["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "json_parse_error")
    assert error["message"]
    assert "x-smg-error-code" not in answer.headers
    assert engine.machine.seen[CHAT] == 0


@pytest.mark.parametrize("content_type", ["text/plain", "application/jsonx", "multipart/form-data", ""])
async def test_a_body_must_be_announced_as_json(stage, content_type):
    gateway = await stage.gateway(await stage.engine())
    answer = await gateway.chat(chat(), [f"content-type: {content_type}"])
    assert (answer.status, answer.json["error"]["code"]) == (400, "json_parse_error")


async def test_parameters_and_case_of_the_announcement_do_not_matter(stage):
    gateway = await stage.gateway(await stage.engine())
    answer = await gateway.chat(chat(max_tokens=1), ["Content-Type: Application/JSON; charset=utf-8"])
    assert answer.status == 200


@pytest.mark.parametrize(
    ("members", "names"),
    [
        ({"temperature": 2.1}, ["temperature"]),
        ({"n": 0, "top_p": 0, "max_tokens": 0}, ["n", "top_p", "max_tokens"]),
        ({"stop": ["a", "b", "c", "d", "e"]}, ["stop"]),
        ({"top_logprobs": 3}, ["top_logprobs", "logprobs"]),
        ({"stream_options": {"include_usage": True}}, ["stream_options", "stream"]),
        ({"tool_choice": "required"}, ["tool_choice"]),
        ({"messages": []}, ["messages"]),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": "y"}}},
            ["response_format"],
        ),
    ],
)
async def test_values_out_of_range_are_all_named_in_one_refusal(stage, members, names):
    engine = await stage.engine()
    gateway = await stage.gateway(engine)
    answer = await gateway.chat({**chat(), **members})
    assert answer.status == 400
    error = answer.json["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", 400)
    assert all(name in error["message"] for name in names)
    assert engine.machine.seen[CHAT] == 0


async def test_completions_have_rules_of_their_own(stage):
    gateway = await stage.gateway(await stage.engine())
    for members in ({"logprobs": 6}, {"n": 129}, {"best_of": 2, "n": 2}, {"prompt": []}):
        answer = await gateway.post(COMPLETIONS, {"model": MODEL, "prompt": "x", **members})
        assert (answer.status, answer.json["error"]["code"]) == (400, 400)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing/here", 404, "unknown_url"),
        ("POST", "/v1/chat/completions/", 404, "unknown_url"),
        ("GET", CHAT, 405, "method_not_allowed"),
        ("OPTIONS", CHAT, 405, "method_not_allowed"),
        ("DELETE", "/v1/models", 405, "method_not_allowed"),
        ("BREW", "/health", 405, "method_not_allowed"),
    ],
)
async def test_what_is_not_there_is_told_from_what_is_asked_wrongly(stage, method, path, status, code):
    gateway = await stage.gateway(await stage.engine())
    answer = await gateway.ask(method, path)
    assert (answer.status, answer.code) == (status, code)
    assert answer.json["error"]["type"] == {404: "Not Found", 405: "Method Not Allowed"}[status]
    assert answer.json["error"]["param"] is None
    if status == 405:
        assert answer.headers["allow"].split(", ") == sorted(answer.headers["allow"].split(", "))
        assert method not in answer.headers["allow"].split(", ")


# --- size


async def test_a_body_that_announces_too_much_is_refused_before_it_is_sent(stage):
    engine = await stage.engine()
    gateway = await stage.gateway(engine, max_payload_size=1000)
    client = await gateway.connect()
    await client.send("POST", CHAT, None, ["expect: 100-continue", "content-type: application/json"], length=1001)
    answer = await client.head()
    assert answer.status == 413
    assert answer.headers["x-smg-error-code"] == "request_body_too_large"
    at_limit = await gateway.chat(padded_chat(1000))
    assert at_limit.status == 200


async def test_a_body_in_chunks_is_cut_off_at_the_same_limit(stage):
    engine = await stage.engine()
    gateway = await stage.gateway(engine, max_payload_size=1000)
    client = await gateway.connect()
    await client.send("POST", CHAT, None, ["transfer-encoding: chunked", "content-type: application/json"])
    for _ in range(3):
        await client.write(b"190\r\n" + b"x" * 400 + b"\r\n")
    answer = await client.answer()
    assert (answer.status, answer.code) == (413, "request_body_too_large")
    assert engine.machine.seen[CHAT] == 0


async def test_an_upload_that_is_refused_can_still_read_why(stage):
    """The client sends on for a while; the answer is not lost to a reset."""
    gateway = await stage.gateway(await stage.engine(), max_payload_size=1000)
    client = await gateway.send("POST", CHAT, b"x" * 500_000, length=5_000_000)
    assert (await client.answer()).code == "request_body_too_large"
    assert await client.rest() == b""


async def test_a_body_in_chunks_arrives_whole(stage):
    engine = await stage.raw_engine(answers())
    gateway = await stage.gateway(engine)
    body = padded_chat(10_000)
    client = await gateway.connect()
    await client.send("POST", CHAT, None, ["transfer-encoding: chunked", "content-type: application/json"])
    for at in range(0, len(body), 999):
        piece = body[at : at + 999]
        await client.write(b"%x;ext=1\r\n%b\r\n" % (len(piece), piece))
    await client.write(b"0\r\ntrailer: x\r\n\r\n")
    assert (await client.answer()).status == 200
    call = engine.calls[0]
    assert call.body == body
    assert call.headers["content-length"] == str(len(body))
    assert "trailer" not in call.headers


# --- streamed


async def test_a_streamed_body_reaches_the_worker_while_it_is_sent(stage):
    engine = await stage.raw_engine(reads_bodies=False)
    gateway = await stage.gateway(engine, **STREAMED)
    client = await gateway.send("POST", CHAT, b"not json, ", length=20)
    call = await engine.call()
    assert await call.reader.readexactly(10) == b"not json, "
    await client.write(b"and nobody")
    assert await call.reader.readexactly(10) == b"and nobody"
    await call.answer()
    answer = await client.answer()
    assert (answer.status, answer.worker) == (200, engine.url)
    scrape = await gateway.scrape()
    assert scrape.value("smg_router_request_body_path_total", path="streamed", reason="pure_forward") == 1
    assert scrape.value("smg_router_requests_total", model=MODEL, streaming="false") == 1


async def test_a_streamed_request_can_be_answered_with_a_stream(stage):
    engine = await stage.engine()
    gateway = await stage.gateway(engine, **STREAMED)
    answer = await gateway.chat(chat(stream=True, max_tokens=5))
    assert answer.events[-1] == "[DONE]"


@pytest.mark.parametrize(
    ("size", "path", "reason"),
    [(2000, "buffered", "retryable"), (2001, "streamed", "retry_forfeited")],
)
async def test_what_could_be_retried_is_kept_up_to_a_size(stage, size, path, reason):
    gateway = await stage.gateway(await stage.raw_engine(answers()), max_buffered_request_bytes=2000)
    assert (await gateway.chat(padded_chat(size))).status == 200
    assert (await gateway.scrape()).value("smg_router_request_body_path_total", path=path, reason=reason) == 1


async def test_without_an_available_worker_the_body_is_read_after_all(stage):
    """So that the request is checked, and can wait for a worker."""
    gateway = await stage.gateway(**STREAMED)
    answer = await gateway.chat(chat(temperature=9))
    assert answer.status == 400
    reason = "no_available_worker"
    assert (await gateway.scrape()).value("smg_router_request_body_path_total", path="buffered", reason=reason) == 1


@pytest.mark.parametrize("settings", [{}, STREAMED], ids=["buffered", "streamed"])
async def test_an_upload_that_stands_still_is_given_up(stage, settings):
    engine = await stage.raw_engine(reads_bodies=False)
    gateway = await stage.gateway(engine, stream_body_stall_timeout_secs=0.2, **settings)
    client = await gateway.send("POST", CHAT, b'{"half":', length=1000)
    answer = await client.answer()
    assert (answer.status, answer.code) == (408, "request_body_stalled")
    assert gateway.worker(engine).breaker.failures == 0


@pytest.mark.parametrize("settings", [{}, STREAMED], ids=["buffered", "streamed"])
async def test_a_large_body_goes_through_unharmed(stage, settings):
    engine = await stage.raw_engine(answers())
    gateway = await stage.gateway(engine, max_buffered_request_bytes=1 << 30, **settings)
    body = padded_chat(8_000_000)
    answer = await gateway.chat(body)
    assert answer.status == 200
    assert engine.calls[0].body == body


async def test_a_large_answer_goes_through_unharmed(stage):
    body = b'"' + b"y" * 8_000_000 + b'"'
    gateway = await stage.gateway(await stage.raw_engine(answers(200, body)))
    assert (await gateway.chat(chat())).body == body


async def test_a_long_stream_goes_through_unharmed_to_a_client_that_is_slow(stage):
    events = 3000

    async def much(call):
        await call.begin_stream()
        for number in range(events):
            await call.event(json.dumps({"number": number, "fill": "z" * 1000}))
        await call.end_stream()

    gateway = await stage.gateway(await stage.raw_engine(much))
    client = await gateway.connect(receive_bytes=8192)
    await client.send("POST", CHAT, chat(stream=True))
    await until(lambda: gateway.gateway.upstream._links)
    answer = await client.answer()
    assert [json.loads(event)["number"] for event in answer.events] == list(range(events))


async def test_a_client_that_does_not_read_slows_down_its_own_stream_and_nobody_else_s(stage):
    written = 0

    async def floods(call):
        nonlocal written
        if not call.json.get("stream"):
            await call.answer()
            return
        await call.begin_stream()
        call.writer.transport.set_write_buffer_limits(high=0)
        try:
            while True:
                call.writer.write(b"%x\r\n%b\r\n" % (100_000, b"x" * 100_000))
                await call.writer.drain()
                written += 100_000
        except ConnectionError:
            call.finish()

    gateway = await stage.gateway(await stage.raw_engine(floods))
    lazy = await gateway.connect(receive_bytes=4096)
    await lazy.send("POST", CHAT, chat(stream=True))
    await until(lambda: written)
    for _ in range(50):
        assert (await gateway.chat(chat())).status == 200
    assert written < 50_000_000  # a few buffers of the kernel's, and a bounded one of the gateway's
    lazy.reset()
