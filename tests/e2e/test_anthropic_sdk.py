"""The anthropic package as a client, through a gateway process.

The gateway's key is a bearer token, which is how this package sends its `api_key` since version 2. Older ones send
`x-api-key`: that one is for a provider behind the gateway, and opens nothing at the gateway itself.
"""

import asyncio

import anthropic
import pytest

from support.plain_http import ask, post
from support.processes import engine_process, launched, launched_beside
from support.raw_engine import raw_engine

MODEL = "demo"
KEY = "sk-gateway-key"
MESSAGES = [{"role": "user", "content": "Tell me something."}]
TOOL = {"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}


@pytest.fixture(scope="module", params=["vllm", "sglang"])
def engine(request):
    with engine_process("--engine", request.param, "--model", MODEL, "--api-key", KEY) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(engine):
    with launched("--worker-urls", engine, workers=1, SMG_API_KEY=KEY) as running:
        yield running


@pytest.fixture
def client(gateway):
    with anthropic.Anthropic(base_url=gateway.url, api_key=KEY, max_retries=0) as made:
        yield made


def test_a_message_and_its_stream_say_the_same(client):
    plain = client.messages.create(model=MODEL, max_tokens=12, messages=MESSAGES, system="Be brief.")
    assert (plain.stop_reason, plain.usage.output_tokens) == ("max_tokens", 12)
    with client.messages.stream(model=MODEL, max_tokens=12, messages=MESSAGES, system="Be brief.") as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == plain.content[0].text == final.content[0].text
    assert (final.stop_reason, final.usage.output_tokens) == ("max_tokens", 12)


async def test_the_same_without_waiting(gateway):
    async with anthropic.AsyncAnthropic(base_url=gateway.url, api_key=KEY, max_retries=0) as client:
        plain = await client.messages.create(model=MODEL, max_tokens=100, messages=MESSAGES)
        assert plain.stop_reason == "end_turn"
        events = await client.messages.create(model=MODEL, max_tokens=100, messages=MESSAGES, stream=True)
        kinds = [event.type async for event in events]
        assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")


def test_a_stop_sequence_is_named(client):
    plain = client.messages.create(model=MODEL, max_tokens=100, messages=MESSAGES)
    word = plain.content[0].text.split()[3]
    cut = client.messages.create(model=MODEL, max_tokens=100, messages=MESSAGES, stop_sequences=[word])
    assert (cut.stop_reason, cut.stop_sequence) == ("stop_sequence", word)


def test_tokens_are_counted_as_they_are_charged(client):
    asked = [{"role": "user", "content": "What nobody has asked before. " * 50}]
    counted = client.messages.count_tokens(model=MODEL, messages=asked)
    answer = client.messages.create(model=MODEL, max_tokens=1, messages=asked)
    assert counted.input_tokens == answer.usage.input_tokens + answer.usage.cache_read_input_tokens


def test_a_tool_is_used_and_answered(client):
    called = client.messages.create(
        model=MODEL, max_tokens=100, messages=MESSAGES, tools=[TOOL], tool_choice={"type": "any"}
    )
    (block,) = called.content
    assert (called.stop_reason, block.type, block.name, list(block.input)) == (
        "tool_use",
        "tool_use",
        "weather",
        ["city"],
    )
    result = {"type": "tool_result", "tool_use_id": block.id, "content": "22 degrees"}
    turns = [*MESSAGES, {"role": "assistant", "content": called.content}, {"role": "user", "content": [result]}]
    answered = client.messages.create(model=MODEL, max_tokens=100, messages=turns, tools=[TOOL])
    assert answered.content[0].type == "text"


def test_a_stream_spells_a_tool_s_input(client):
    choice = {"type": "tool", "name": "weather"}
    with client.messages.stream(
        model=MODEL, max_tokens=100, messages=MESSAGES, tools=[TOOL], tool_choice=choice
    ) as stream:
        (block,) = stream.get_final_message().content
    assert list(block.input) == ["city"]


def test_an_error_of_the_engine_arrives_as_it_is(client, engine):
    assert post(f"{engine}/sim/faults", {"kind": "error", "path": "/v1/messages", "status": 400}).status == 200
    try:
        with pytest.raises(anthropic.BadRequestError) as refused:
            client.messages.create(model=MODEL, max_tokens=1, messages=MESSAGES)
    finally:
        ask("DELETE", f"{engine}/sim/faults")
    assert refused.value.body["error"]["type"] == "invalid_request_error"


def test_a_model_that_nobody_serves_is_not_found(client):
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(model="nobody", max_tokens=1, messages=MESSAGES)


def test_a_key_for_a_provider_is_none_for_the_gateway(gateway):
    body = {"model": MODEL, "max_tokens": 1, "messages": MESSAGES}
    assert post(f"{gateway.url}/v1/messages", body, {"x-api-key": KEY}).status == 401
    assert post(f"{gateway.url}/v1/messages", body, {"authorization": f"Bearer {KEY}"}).status == 200


async def test_a_local_worker_gets_the_version_and_no_key_of_a_provider():
    own = {"x-api-key": "sk-ant-own"}
    async with (
        raw_engine() as engine,
        launched_beside("--worker-urls", engine.url, workers=1, SMG_API_KEY=KEY) as running,
        anthropic.AsyncAnthropic(base_url=running.url, api_key=KEY, default_headers=own, max_retries=0) as client,
    ):
        raw = client.messages.with_raw_response
        asking = asyncio.create_task(raw.create(model=engine.model, max_tokens=1, messages=MESSAGES))
        call = await engine.call()
        assert call.path == "/v1/messages"
        assert call.headers["anthropic-version"]
        assert call.headers["authorization"] == f"Bearer {KEY}"
        assert "x-api-key" not in call.headers
        await call.answer(200, {"type": "message", "content": []})
        assert (await asking).headers["x-smg-routed-worker-id"] == engine.url
