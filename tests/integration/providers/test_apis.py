"""Responses, Messages and Interactions: forwarded as they came, to those who speak them; errors in the API's words."""

import json

import pytest

from support.bodies import MODEL
from support.providers import BODIES
from support.raw_engine import answers

APIS = {"/v1/responses": "responses", "/v1/messages": "messages", "/v1/interactions": "interactions"}
APIS["/v1/messages/count_tokens"] = "count_tokens"
OF_ENGINES = [path for path in APIS if path != "/v1/interactions"]
OF_ANTHROPIC = [path for path in APIS if "messages" in path]


def spelled(path, **members):
    """A body with members that the gateway does not know, and numbers in an odd spelling."""
    text = json.dumps({**BODIES[path], **members}, separators=(",", ":"))
    return (text[:-1] + ',"temperature":0.70,"odd":{"z":1e-7,"a":[9223372036854775808]}}').encode()


@pytest.mark.parametrize("path", OF_ENGINES)
async def test_a_request_reaches_an_engine_as_it_came(stage, path):
    engine = await stage.raw_engine(answers(200, b'{"id": "x",  "n": 1.50}'))
    gateway = await stage.gateway(engine)
    answer = await gateway.post(path, spelled(path))
    assert (answer.status, answer.body) == (200, b'{"id": "x",  "n": 1.50}')
    assert (engine.calls[0].path, engine.calls[0].body) == (path, spelled(path))
    scrape = await gateway.scrape()
    assert scrape.value("smg_router_requests_total", endpoint=APIS[path], model=MODEL) == 1


@pytest.mark.parametrize("path", APIS)
async def test_a_request_reaches_a_provider_under_its_base_path(stage, path):
    gateway, engine = await stage.provider(base="/openai/v1")
    assert (await gateway.post(path, spelled(path))).status == 200
    assert (engine.calls[0].path, engine.calls[0].body) == ("/openai" + path, spelled(path))


@pytest.mark.parametrize("path", APIS)
async def test_an_alias_is_resolved(stage, path):
    gateway, engine = await stage.provider(model_alias=(f"nick={MODEL}",))
    assert (await gateway.post(path, spelled(path, model="nick"))).status == 200
    assert engine.calls[0].body == spelled(path)


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages", "/v1/interactions"])
async def test_a_stream_is_relayed_as_it_comes(stage, path):
    gateway, engine = await stage.provider(script=None)
    client = await gateway.send("POST", path, spelled(path, stream=True))
    call = await engine.call()
    await call.begin_stream()
    head = await client.head()
    assert head.headers["content-type"] == "text/event-stream"
    for text in (b"event: one\ndata: {}\n\n", b"event: two\nda", b"ta: {}\n\n"):
        await call.chunk(text)
        assert await client.chunk() == text
    await call.end_stream()
    assert await client.rest_of_body() == b""


@pytest.mark.parametrize(
    ("provider", "lacks"),
    [
        ("openai", {"messages", "count_tokens", "interactions"}),
        ("anthropic", {"responses", "interactions"}),
        ("xai", {"interactions"}),
        ("gemini", {"messages", "count_tokens", "responses"}),
        ("acme", set()),
    ],
)
async def test_what_a_provider_does_not_speak_is_not_implemented(stage, provider, lacks):
    gateway, engine = await stage.provider(provider)
    for path, name in APIS.items():
        answer = await gateway.post(path, BODIES[path])
        if name in lacks:
            assert (answer.status, answer.headers["x-smg-error-code"]) == (501, f"{name}_not_supported")
        else:
            assert answer.status == 200
    assert len(engine.calls) == len(APIS) - len(lacks)


async def test_no_engine_of_the_fleet_speaks_interactions_but_a_provider_beside_it_may(stage):
    engine = await stage.raw_engine(answers())
    gateway = await stage.gateway(engine)
    refused = await gateway.post("/v1/interactions", BODIES["/v1/interactions"])
    assert (refused.status, refused.code) == (501, "interactions_not_supported")
    _, provider = await stage.provider("gemini", gateway=gateway)
    for _ in range(3):
        assert (await gateway.post("/v1/interactions", BODIES["/v1/interactions"])).worker == provider.url


async def test_an_agent_needs_no_model_but_not_both(stage):
    gateway, engine = await stage.provider("gemini")
    assert (await gateway.post("/v1/interactions", {"agent": "deep", "input": "x"})).status == 200
    assert engine.calls[0].json == {"agent": "deep", "input": "x"}
    both = await gateway.post("/v1/interactions", {"agent": "deep", "model": MODEL, "input": "x"})
    assert (both.status, both.json["error"]["code"]) == (400, 400)


@pytest.mark.parametrize("path", APIS)
async def test_each_member_that_must_be_there_is_missed(stage, path):
    gateway, engine = await stage.provider()
    for name in set(BODIES[path]) - {"model"}:
        body = {key: value for key, value in BODIES[path].items() if key != name}
        answer = await gateway.post(path, body)
        assert answer.status == 400
        assert name in answer.json["error"]["message"]
    assert engine.calls == []


@pytest.mark.parametrize(
    ("path", "member", "value"),
    [
        ("/v1/responses", "max_output_tokens", 0),
        ("/v1/messages", "max_tokens", 0),
        ("/v1/messages", "messages", []),
        ("/v1/messages/count_tokens", "messages", []),
    ],
)
async def test_a_value_out_of_its_range_is_refused(stage, path, member, value):
    gateway, engine = await stage.provider()
    answer = await gateway.post(path, {**BODIES[path], member: value})
    assert answer.status == 400
    assert "x-smg-error-code" not in answer.headers
    assert answer.json["error"]["message"].startswith(f"{member}: ")
    assert engine.calls == []


# --- errors


@pytest.mark.parametrize("path", OF_ANTHROPIC)
@pytest.mark.parametrize(
    ("model", "headers", "status", "kind"),
    [
        ("nobody", [], 404, "not_found_error"),
        (MODEL, ["content-type: text/plain"], 400, "invalid_request_error"),
        (7, [], 400, "invalid_request_error"),
    ],
)
async def test_errors_of_the_messages_api_are_in_its_words(stage, path, model, headers, status, kind):
    gateway, _ = await stage.provider()
    answer = await gateway.post(path, {**BODIES[path], "model": model}, ["x-request-id: mine", *headers])
    assert answer.status == status
    assert answer.json["type"] == "error"
    assert answer.json["error"]["type"] == kind
    assert answer.json["error"]["message"]
    assert answer.json["request_id"] == "mine"


async def test_errors_of_the_responses_api_are_in_the_envelope(stage):
    gateway, _ = await stage.provider()
    answer = await gateway.post("/v1/responses", {"model": "nobody", "input": "x"})
    assert (answer.status, answer.code) == (404, "model_not_found")


async def test_a_full_gateway_says_so_in_the_words_of_the_api(stage):
    gateway, engine = await stage.provider(script=None, max_concurrent_requests=1, queue_size=0)
    first = await gateway.send("POST", "/v1/messages", BODIES["/v1/messages"])
    call = await engine.call()
    answer = await gateway.post("/v1/messages", BODIES["/v1/messages"])
    assert (answer.status, answer.json["error"]["type"]) == (429, "rate_limit_error")
    assert answer.headers["x-smg-error-code"] == "admission_queue_full"
    assert answer.headers["retry-after"] == "2"
    await call.answer()
    assert (await first.answer()).status == 200


async def test_an_error_of_the_worker_is_its_own(stage):
    body = b'{"type":"error","error":{"type":"invalid_request_error","message":"no"}}'
    gateway, _ = await stage.provider(script=(answers(400, body),))
    answer = await gateway.post("/v1/messages", BODIES["/v1/messages"])
    assert (answer.status, answer.body) == (400, body)
    assert "x-smg-error-code" not in answer.headers


async def test_a_stream_that_breaks_ends_with_an_error_event_of_the_api(stage):
    gateway, engine = await stage.provider(script=None)
    client = await gateway.send("POST", "/v1/messages", {**BODIES["/v1/messages"], "stream": True})
    call = await engine.call()
    await call.begin_stream()
    await call.chunk(b"event: message_start\ndata: {}\n\nevent: content_bl")
    call.reset()
    answer = await client.answer()
    events = answer.body.decode().split("\n\n")
    assert events[0] == "event: message_start\ndata: {}"
    name, data = events[2].split("\n")
    assert name == "event: error"
    error = json.loads(data.removeprefix("data: "))
    assert (error["type"], error["error"]["type"]) == ("error", "api_error")
    assert events[3:] == [""]
