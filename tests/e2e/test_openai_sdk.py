"""The openai package as a client: what it sends is understood, and what it gets it understands."""

import asyncio
import json

import openai
import pytest
from pydantic import BaseModel

from support.plain_http import ask, get, post
from support.processes import engine_process, launched, launched_beside
from support.raw_engine import raw_engine
from support.waiting import eventually

MODEL = "demo"
KEY = "sk-gateway-key"
MESSAGES = [{"role": "user", "content": "Tell me something."}]


@pytest.fixture(scope="module")
def engines():
    with (
        engine_process("--engine", "sglang", "--model", MODEL, "--api-key", KEY) as one,
        engine_process("--engine", "sglang", "--model", MODEL, "--api-key", KEY) as other,
    ):
        yield one, other


@pytest.fixture(scope="module")
def gateway(engines):
    flags = ["--worker-urls", *engines, "--policy", "round_robin", "--retry-initial-backoff-ms", "1"]
    with launched(*flags, workers=2, SMG_API_KEY=KEY) as running:
        yield running


@pytest.fixture
def client(gateway):
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0) as made:
        yield made


@pytest.fixture
async def async_client(gateway):
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0) as made:
        yield made


@pytest.fixture
def faults(engines):
    """Give both engines a fault for the time of a test."""

    def add(**fault):
        for engine in engines:
            assert post(f"{engine}/sim/faults", fault).status == 200

    yield add
    for engine in engines:
        ask("DELETE", f"{engine}/sim/faults")


# --- answers


def test_a_chat_and_its_stream_say_the_same(client):
    plain = client.chat.completions.create(model=MODEL, messages=MESSAGES, max_completion_tokens=12)
    assert plain.choices[0].finish_reason == "length"
    assert plain.usage.completion_tokens == 12
    assert plain._request_id.startswith("chatcmpl-")
    stream = client.chat.completions.create(
        model=MODEL,
        messages=MESSAGES,
        max_completion_tokens=12,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == plain.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == 12


async def test_the_same_without_waiting(async_client):
    plain = await async_client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=12)
    stream = await async_client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=12, stream=True)
    pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(pieces) == plain.choices[0].message.content


def test_a_completion_and_its_stream_say_the_same(client):
    plain = client.completions.create(model=MODEL, prompt="Once upon a time", max_tokens=9)
    stream = client.completions.create(model=MODEL, prompt="Once upon a time", max_tokens=9, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == plain.choices[0].text


async def test_a_completion_without_waiting(async_client):
    several = await async_client.completions.create(model=MODEL, prompt=["one", "two"], max_tokens=3)
    assert len(several.choices) == 2


@pytest.mark.parametrize("encoding", ["float", "base64", None])
def test_embeddings_are_vectors(client, encoding):
    options = {} if encoding is None else {"encoding_format": encoding}
    answer = client.embeddings.create(model=MODEL, input=["one", "two"], **options)
    assert [item.index for item in answer.data] == [0, 1]
    if encoding != "base64":  # asked for by name, the package leaves it encoded
        assert all(isinstance(number, float) for number in answer.data[0].embedding)


async def test_embeddings_without_waiting(async_client):
    answer = await async_client.embeddings.create(model=MODEL, input="one")
    assert len(answer.data) == 1


TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


class Person(BaseModel):
    name: str
    age: int
    tags: list[str]


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_is_called_and_answered(client, stream):
    turns = [*MESSAGES]
    asked = {"model": MODEL, "messages": turns, "tools": [TOOL], "tool_choice": "required"}
    if stream:
        with client.chat.completions.stream(**asked) as chunks:
            (choice,) = chunks.get_final_completion().choices
    else:
        (choice,) = client.chat.completions.create(**asked).choices
    assert choice.finish_reason == "tool_calls"
    (called,) = choice.message.tool_calls
    assert called.function.name == "weather"
    assert list(json.loads(called.function.arguments)) == ["city"]
    turns.append({"role": "assistant", "tool_calls": [called.model_dump(include={"id", "type", "function"})]})
    turns.append({"role": "tool", "tool_call_id": called.id, "content": "22 degrees"})
    answer = client.chat.completions.create(model=MODEL, messages=turns, tools=[TOOL])
    assert answer.choices[0].message.content


def test_an_answer_can_be_parsed(client):
    parsed = client.chat.completions.parse(model=MODEL, messages=MESSAGES, response_format=Person)
    assert isinstance(parsed.choices[0].message.parsed, Person)
    with client.chat.completions.stream(model=MODEL, messages=MESSAGES, response_format=Person) as chunks:
        assert chunks.get_final_completion().choices[0].message.parsed == parsed.choices[0].message.parsed


async def test_an_answer_can_be_any_json(async_client):
    answer = await async_client.chat.completions.create(
        model=MODEL, messages=MESSAGES, response_format={"type": "json_object"}
    )
    assert isinstance(json.loads(answer.choices[0].message.content), dict)


AUDIO = ("наша запись.wav", b"RIFF" + bytes(3_000_000), "audio/wav")


def test_a_transcript_and_its_stream_say_the_same(client):
    plain = client.audio.transcriptions.create(model=MODEL, file=AUDIO, prompt="names", temperature=0.0)
    assert plain.text
    assert plain._request_id.startswith("transcription-")
    stream = client.audio.transcriptions.create(model=MODEL, file=AUDIO, prompt="names", stream=True)
    events = list(stream)
    assert "".join(event.delta for event in events if event.type == "transcript.text.delta") == plain.text
    assert events[-1].type == "transcript.text.done"
    assert events[-1].text == plain.text


@pytest.mark.parametrize("form", ["text", "srt", "vtt"])
def test_a_transcript_has_the_format_that_was_asked_for(client, form):
    plain = client.audio.transcriptions.create(model=MODEL, file=AUDIO)
    assert plain.text in client.audio.transcriptions.create(model=MODEL, file=AUDIO, response_format=form)


async def test_a_verbose_transcript_without_waiting(async_client):
    answer = await async_client.audio.transcriptions.create(
        model=MODEL, file=AUDIO, response_format="verbose_json", timestamp_granularities=["word", "segment"]
    )
    assert answer.segments[0].text == answer.text
    assert answer.words[0].start == 0


def test_a_form_that_is_refused_is_a_bad_request(client):
    with pytest.raises(openai.BadRequestError) as refused:
        client.audio.transcriptions.create(model=MODEL, file=AUDIO, temperature=2)
    assert "temperature" in refused.value.response.text
    with pytest.raises(openai.NotFoundError):
        client.audio.transcriptions.create(model="nobody", file=AUDIO)


def test_the_models_are_listed(client):
    assert [model.id for model in client.models.list()] == [MODEL]


async def test_the_models_are_listed_without_waiting(async_client):
    assert [model.id async for model in async_client.models.list()] == [MODEL]


async def test_many_at_once_are_spread_over_the_workers(async_client, engines):
    async def one(number):
        raw = await async_client.chat.completions.with_raw_response.create(
            model=MODEL, messages=[{"role": "user", "content": str(number)}], max_tokens=4
        )
        assert raw.parse().usage.completion_tokens == 4
        return raw.headers["x-smg-routed-worker-id"]

    workers = await asyncio.gather(*(one(number) for number in range(40)))
    assert set(workers) == set(engines)


def test_members_that_only_an_engine_knows_reach_it(client):
    answer = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, max_tokens=2, extra_body={"rid": "my-own-id", "unheard_of": {"a": 1}}
    )
    assert answer.id == "my-own-id"


def test_one_id_follows_a_request_through(client):
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=MESSAGES, max_tokens=1, extra_headers={"X-Request-ID": "trace-me"}
    )
    assert raw.headers["x-request-id"] == "trace-me"
    assert raw.parse()._request_id == "trace-me"


# --- errors


def test_a_model_nobody_serves_is_not_found(client):
    with pytest.raises(openai.NotFoundError) as refused:
        client.chat.completions.create(model="nobody", messages=MESSAGES)
    assert refused.value.code == "model_not_found"
    assert refused.value.request_id.startswith("chatcmpl-")
    assert refused.value.response.headers["x-smg-error-code"] == "model_not_found"


async def test_a_model_nobody_serves_is_not_found_without_waiting(async_client):
    with pytest.raises(openai.NotFoundError) as refused:
        await async_client.embeddings.create(model="nobody", input="x")
    assert refused.value.code == "model_not_found"


def test_a_body_that_is_no_request_is_a_bad_one(client):
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=MODEL, messages="hello")
    assert refused.value.code == "json_parse_error"
    assert refused.value.type == "invalid_request_error"


def test_a_value_out_of_range_is_named(client):
    with pytest.raises(openai.BadRequestError, match="temperature") as refused:
        client.chat.completions.create(model=MODEL, messages=MESSAGES, temperature=9)
    assert str(refused.value.code) == "400"


def test_a_wrong_key_is_refused(gateway):
    wrong = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="sk-wrong", max_retries=0)
    with wrong as client, pytest.raises(openai.AuthenticationError):
        client.chat.completions.create(model=MODEL, messages=MESSAGES)


def test_an_unknown_route_is_not_found(client):
    with pytest.raises(openai.NotFoundError) as refused:
        client.images.generate(model=MODEL, prompt="a cat")
    assert refused.value.code == "unknown_url"


def test_an_engine_s_own_error_arrives_as_it_is(client, faults):
    faults(kind="error", path="/v1/chat/completions", status=422)
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        client.chat.completions.create(model=MODEL, messages=MESSAGES)
    assert "x-smg-error-code" not in refused.value.response.headers


def test_an_upstream_that_fails_every_time_is_a_server_error(client, faults):
    faults(kind="reset", path="/v1/chat/completions")
    with pytest.raises(openai.InternalServerError) as refused:
        client.chat.completions.create(model=MODEL, messages=MESSAGES)
    assert refused.value.code == "call_upstream_request_error"


def test_a_stream_that_breaks_is_an_error_and_not_an_end(client, faults):
    faults(kind="reset", path="/v1/chat/completions", after_events=3)
    stream = client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True)
    with pytest.raises(openai.APIError):
        list(stream)


async def test_a_stream_that_breaks_is_an_error_without_waiting_too(async_client, faults):
    faults(kind="reset", path="/v1/chat/completions", after_events=3)
    stream = await async_client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True)
    with pytest.raises(openai.APIError):
        _ = [chunk async for chunk in stream]


def test_a_client_that_gives_a_stream_up_stops_the_engine(client, gateway, engines, faults):
    faults(kind="slow_body", path="/v1/chat/completions", ms=20, count=1)
    stream = client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=4000, stream=True)
    next(iter(stream))
    stream.close()

    def idle():
        states = [get(f"{engine}/sim/state").json for engine in engines]
        rows = get(f"{gateway.url}/workers", {"authorization": f"Bearer {KEY}"}).json["workers"]
        return not any([state["running"] + state["waiting"] for state in states] + [row["load"] for row in rows])

    eventually(idle, "rest at engines and gateway")


async def test_too_many_requests_say_so():
    async with raw_engine() as engine:
        flags = ["--worker-urls", engine.url, "--max-concurrent-requests", "1", "--queue-size", "0"]
        async with (
            launched_beside(*flags, workers=1) as running,
            openai.AsyncOpenAI(base_url=f"{running.url}/v1", api_key="any", max_retries=0) as client,
        ):
            request = {"model": engine.model, "messages": MESSAGES}
            first = asyncio.create_task(client.chat.completions.create(**request))
            call = await engine.call()
            assert call.headers["authorization"] == "Bearer any"
            with pytest.raises(openai.RateLimitError) as refused:
                await client.chat.completions.create(**request)
            assert refused.value.code == "admission_queue_full"
            assert refused.value.response.headers["retry-after"] == "2"
            await call.answer(200, {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": []})
            assert (await first).id == "x"
