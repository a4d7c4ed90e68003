"""The openai package in realtime sessions: events both ways through a gateway process."""

import openai
import pytest

from support.plain_http import get, post
from support.processes import engine_process, launched
from support.waiting import eventually

MODEL = "demo"
KEY = "sk-gateway-key"
AUTHORIZATION = {"authorization": f"Bearer {KEY}"}
HELLO = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello."}]}


@pytest.fixture(scope="module")
def engines():
    flags = ["--model", MODEL, "--api-key", KEY]
    with (
        engine_process("--engine", "openai", *flags) as speaker,
        engine_process("--engine", "sglang", *flags) as other,
    ):
        yield speaker, other


@pytest.fixture(scope="module")
def gateway(engines):
    """In front of a realtime worker and one that is none."""
    speaker, other = engines
    with launched("--worker-urls", other, "--policy", "round_robin", workers=1, SMG_API_KEY=KEY) as running:
        labelled = {"url": speaker, "labels": {"realtime": "true"}}
        assert post(f"{running.url}/workers", labelled, AUTHORIZATION).status == 202
        eventually(lambda: running.readiness().json["healthy_workers"] == 2, "the second worker")
        yield running


@pytest.fixture
async def client(gateway):
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0) as made:
        yield made


async def until(session, kind):
    """All events up to one of a type."""
    heard = []
    while not heard or heard[-1].type != kind:
        heard.append(await session.recv())
    return heard


async def test_a_session_is_a_conversation(client, gateway):
    async with client.realtime.connect(model=MODEL) as session:
        assert (await session.recv()).type == "session.created"
        await session.session.update(session={"type": "realtime", "instructions": "Be brief."})
        assert (await session.recv()).session.instructions == "Be brief."
        said = []
        for _ in range(2):
            await session.conversation.item.create(item=HELLO)
            await session.response.create()
            heard = await until(session, "response.done")
            deltas = [event.delta for event in heard if event.type == "response.output_text.delta"]
            (item,) = heard[-1].response.output
            assert "".join(deltas) == item.content[0].text
            assert heard[-1].response.status == "completed"
            said.append(item.content[0].text)
        assert said[0] != said[1]  # the second answer has heard the first one
        load = {row["url"]: row["load"] for row in get(f"{gateway.url}/workers", AUTHORIZATION).json["workers"]}
        assert sorted(load.values()) == [0, 1]

    def ended():
        rows = get(f"{gateway.url}/workers", AUTHORIZATION).json["workers"]
        return not any(row["load"] for row in rows)

    eventually(ended, "the end of the session at the gateway")


async def test_a_response_that_is_not_wanted_any_more_is_cancelled(client):
    async with client.realtime.connect(model=MODEL) as session:
        await session.response.create()
        await session.response.cancel()
        done = (await until(session, "response.done"))[-1]
        assert done.response.status in {"cancelled", "completed"}  # an engine without a pace may have been faster


async def test_a_tool_is_called_and_answered(client):
    tool = {"type": "function", "name": "look_up", "parameters": {"type": "object", "properties": {}}}
    async with client.realtime.connect(model=MODEL) as session:
        await session.conversation.item.create(item=HELLO)
        await session.response.create(response={"tools": [tool], "tool_choice": "required"})
        (item,) = (await until(session, "response.done"))[-1].response.output
        assert (item.type, item.name, item.arguments) == ("function_call", "look_up", "{}")
        answer = {"type": "function_call_output", "call_id": item.call_id, "output": "42"}
        await session.conversation.item.create(item=answer)
        await session.response.create()
        (item,) = (await until(session, "response.done"))[-1].response.output
        assert item.type == "message"


async def test_speech_is_taken_in(client):
    async with client.realtime.connect(model=MODEL) as session:
        await session.input_audio_buffer.append(audio="AAAA" * 100_000)
        await session.input_audio_buffer.commit()
        committed = (await until(session, "input_audio_buffer.committed"))[-1]
        assert (await until(session, "conversation.item.done"))[-1].item.id == committed.item_id


async def test_what_is_no_event_is_an_error_and_the_session_goes_on(client):
    async with client.realtime.connect(model=MODEL) as session:
        await session.send({"type": "nonsense", "event_id": "mine"})
        assert (await until(session, "error"))[-1].error.event_id == "mine"
        await session.input_audio_buffer.clear()
        assert (await session.recv()).type == "input_audio_buffer.cleared"


@pytest.mark.parametrize(("model", "key", "status"), [("nobody", KEY, 404), (MODEL, "sk-wrong", 401)])
async def test_a_session_that_is_refused_says_why(gateway, model, key, status):
    websockets = pytest.importorskip("websockets.exceptions")
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0) as client:
        with pytest.raises(websockets.InvalidStatus) as refused:
            await client.realtime.connect(model=model).enter()
    assert refused.value.response.status_code == status


async def test_a_secret_is_the_worker_s(client):
    secret = await client.realtime.client_secrets.create(session={"type": "realtime", "model": MODEL})
    assert secret.value.startswith("ek_")
    assert secret.session.model == MODEL
