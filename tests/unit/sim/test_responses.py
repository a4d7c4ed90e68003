"""The Responses API says what a chat says."""

import json

import msgspec
import pytest

from smg.sim import responses
from smg.sim.dialect import SimError
from smg.sim.forms import Identity

IDENTITY = Identity("resp_1f", 1234, "m", "v1")
TOOL = {"type": "function", "name": "find", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}


def asked(**body):
    return responses.read(msgspec.json.encode({"model": "m", **body}))


def response(talk, **body):
    request = asked(**body)
    call = talk.call_of("chat", **json.loads(request.chat))
    return responses.ResponsesForm(request.body, call, IDENTITY), talk.sequences_of(call)


def events(raw):
    blocks = raw.split(b"\n\n")
    assert blocks.pop() == b""
    rows = []
    for number, block in enumerate(blocks):
        name, data = block.split(b"\ndata: ")
        rows.append(msgspec.json.decode(data))
        assert name == b"event: " + rows[-1]["type"].encode()
        assert rows[-1]["sequence_number"] == number
    return rows


def test_a_request_is_the_chat_that_says_the_same():
    chat = json.loads(
        asked(
            instructions="Be brief.",
            input=[
                {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                {"type": "function_call", "call_id": "c", "name": "find", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "3"},
                {"type": "reasoning", "summary": []},
            ],
            max_output_tokens=7,
            tools=[TOOL],
            tool_choice={"type": "function", "name": "find"},
            text={"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
        ).chat
    )
    assert [message["role"] for message in chat["messages"]] == ["system", "user", "assistant", "tool", "assistant"]
    assert chat["messages"][2]["tool_calls"][0]["function"] == {"name": "find", "arguments": "{}"}
    assert chat["max_tokens"] == 7
    assert chat["tools"][0]["function"]["name"] == "find"
    assert chat["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert asked(input="hi").chat == asked(input=[{"role": "user", "content": "hi"}]).chat


def test_a_whole_response(talk):
    form, (sequence,) = response(talk, input="hi", metadata={"a": "b"})
    answer = msgspec.json.decode(form.whole([talk.finish(sequence)], "v1", 0.0))
    assert (answer["id"], answer["object"], answer["status"]) == ("resp_1f", "response", "completed")
    (item,) = answer["output"]
    assert (item["type"], item["role"], item["status"]) == ("message", "assistant", "completed")
    assert item["content"][0]["text"] == sequence.output.text
    assert answer["usage"]["input_tokens"] == sequence.prompt.tokens
    assert answer["usage"]["total_tokens"] == sequence.prompt.tokens + sequence.output.tokens
    assert answer["metadata"] == {"a": "b"}


@pytest.mark.parametrize(("ended", "status"), [("stop", "completed"), ("length", "incomplete"), ("abort", "failed")])
def test_how_it_ended_is_its_status_and_its_last_event(talk, ended, status):
    form, (sequence,) = response(talk, input="hi")
    answer = msgspec.json.decode(form.whole([talk.finish(sequence, ended)], "v1", 0.0))
    assert answer["status"] == status
    assert (answer["error"] is None) is (status != "failed")
    assert (answer["incomplete_details"] is None) is (status != "incomplete")
    assert events(response(talk, input="hi")[0].ending([sequence]))[0]["type"] == f"response.{status}"


def test_a_stream_has_its_events_in_order_and_spells_the_text(talk):
    form, (sequence,) = response(talk, input="hi", stream=True)
    rows = events(talk.stream(form, sequence, 1, 4, sequence.output.tokens) + form.ending([sequence]))
    names = [row["type"].removeprefix("response.") for row in rows]
    deltas = [row["delta"] for row in rows if row["type"] == "response.output_text.delta"]
    assert names == [
        *("created", "in_progress", "output_item.added", "content_part.added"),
        *["output_text.delta"] * len(deltas),
        *("output_text.done", "content_part.done", "output_item.done", "completed"),
    ]
    assert "".join(deltas) == sequence.output.text == rows[-1]["response"]["output"][0]["content"][0]["text"]


def test_a_forced_tool_is_called(talk):
    form, (sequence,) = response(talk, input="hi", tools=[TOOL], tool_choice="required", stream=True)
    rows = events(talk.stream(form, sequence, sequence.output.tokens) + form.ending([sequence]))
    names = {row["type"] for row in rows}
    assert "response.function_call_arguments.done" in names
    assert not {name for name in names if "text" in name or "part" in name}
    (item,) = rows[-1]["response"]["output"]
    assert (item["type"], item["name"]) == ("function_call", "find")
    assert list(json.loads(item["arguments"])) == ["x"]


@pytest.mark.parametrize(
    ("body", "status"), [({}, 400), ({"input": 3}, 400), ({"input": "hi", "previous_response_id": "resp_0"}, 404)]
)
def test_what_cannot_be_answered_is_refused(body, status):
    with pytest.raises(SimError) as refused:
        asked(**body)
    assert refused.value.status == status
