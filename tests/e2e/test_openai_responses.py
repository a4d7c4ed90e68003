"""The openai package and its Responses API, through a gateway process."""

import openai
import pytest
from pydantic import BaseModel

from support.processes import engine_process, launched

MODEL = "demo"
KEY = "sk-gateway-key"
TOOL = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


class Person(BaseModel):
    name: str
    age: int


@pytest.fixture(scope="module", params=["vllm", "sglang"])
def gateway(request):
    with (
        engine_process("--engine", request.param, "--model", MODEL, "--api-key", KEY) as engine,
        launched("--worker-urls", engine, workers=1, SMG_API_KEY=KEY) as running,
    ):
        yield running


@pytest.fixture
def client(gateway):
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0) as made:
        yield made


def test_a_response_and_its_stream_say_the_same(client):
    asked = {"model": MODEL, "input": "Tell me something.", "instructions": "Be brief."}
    plain = client.responses.create(**asked)
    assert (plain.status, plain.error) == ("completed", None)
    assert plain.usage.output_tokens == 64
    events = list(
        client.responses.create(model=MODEL, input="Tell me something.", instructions="Be brief.", stream=True)
    )
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == plain.output_text
    assert events[-1].response.usage.output_tokens == 64


async def test_the_same_without_waiting(gateway):
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0) as client:
        async with client.responses.stream(model=MODEL, input="Tell me something.") as stream:
            pieces = [event.delta async for event in stream if event.type == "response.output_text.delta"]
            final = await stream.get_final_response()
        assert "".join(pieces) == final.output_text


def test_an_answer_that_is_cut_off_is_incomplete(client):
    cut = client.responses.create(model=MODEL, input="Tell me something.", max_output_tokens=3)
    assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")


def test_a_tool_is_called_and_answered(client):
    asked = [{"role": "user", "content": "How is it?"}]
    called = client.responses.create(model=MODEL, input=asked, tools=[TOOL], tool_choice="required")
    (item,) = called.output
    assert (item.type, item.name) == ("function_call", "weather")
    asked += [
        {"type": "function_call", "call_id": item.call_id, "name": item.name, "arguments": item.arguments},
        {"type": "function_call_output", "call_id": item.call_id, "output": "22 degrees"},
    ]
    answered = client.responses.create(model=MODEL, input=asked, tools=[TOOL])
    assert answered.output_text


def test_an_answer_can_be_parsed(client):
    parsed = client.responses.parse(model=MODEL, input="Who is it?", text_format=Person)
    assert isinstance(parsed.output_parsed, Person)


def test_a_model_that_nobody_serves_is_not_found(client):
    with pytest.raises(openai.NotFoundError) as refused:
        client.responses.create(model="nobody", input="hello")
    assert refused.value.code == "model_not_found"
