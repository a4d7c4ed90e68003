"""Chats that must call a tool, and those that must be JSON."""

import json

import msgspec
import pytest

from smg.sim.dialect import SimError
from smg.sim.dialects import DIALECTS
from smg.sim.forms import ChatForm, Identity
from smg.sim.output import Writer
from smg.sim.requests import Reader
from smg.sim.tool_calls import ToolCallForm

IDENTITY = Identity("chatcmpl-1f", 1234, "m", "v1")
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": PARAMETERS}} for name in ("one", "two")]
TWO = {"type": "function", "function": {"name": "two"}}


def chat(talk, **body):
    call = talk.call_of("chat", messages=[{"content": "hi"}], **body)
    form = ToolCallForm if call.tool else ChatForm
    return form(DIALECTS["vllm"], call, IDENTITY), talk.sequences_of(call)


@pytest.mark.parametrize(("choice", "name"), [("required", "one"), (TWO, "two")])
def test_a_tool_that_must_be_called_is(talk, choice, name):
    form, sequences = chat(talk, tools=TOOLS, tool_choice=choice)
    answer = msgspec.json.decode(form.whole([talk.finish(s) for s in sequences], "v1", 0.0))
    (given,) = answer["choices"]
    assert given["finish_reason"] == "tool_calls"
    (called,) = given["message"]["tool_calls"]
    assert called["function"]["name"] == name
    assert list(json.loads(called["function"]["arguments"])) == ["city"]


def test_a_stream_spells_the_same_call(talk):
    form, (sequence,) = chat(talk, tools=TOOLS, tool_choice="required")
    events = talk.events(talk.stream(form, sequence, 1, 3, sequence.output.tokens))
    deltas = [event["choices"][0]["delta"] for event in events]
    first = deltas[0]["tool_calls"][0]
    assert (first["function"], first["type"]) == ({"name": "one", "arguments": ""}, "function")
    spelt = "".join(call["function"]["arguments"] for delta in deltas for call in delta.get("tool_calls", ()))
    assert spelt == sequence.output.text
    assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("choice", [None, "auto", "none"])
def test_a_tool_that_may_be_called_is_not(talk, choice):
    form, _ = chat(talk, tools=TOOLS, tool_choice=choice)
    assert type(form) is ChatForm


def test_a_call_that_is_cut_off_says_so(talk):
    form, (sequence,) = chat(talk, tools=TOOLS, tool_choice="required", max_tokens=2)
    answer = msgspec.json.decode(form.whole([talk.finish(sequence)], "v1", 0.0))
    assert answer["choices"][0]["finish_reason"] == "length"
    assert len(answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]) == 8


FORMATS = [{"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "n", "schema": PARAMETERS}}]


@pytest.mark.parametrize("wanted", FORMATS)
def test_json_that_is_asked_for_is_escaped_in_answers_and_streams(talk, wanted):
    form, (sequence,) = chat(talk, response_format=wanted)
    events = talk.events(talk.stream(form, sequence, 2, sequence.output.tokens))
    spelt = "".join(event["choices"][0]["delta"].get("content", "") for event in events)
    whole = msgspec.json.decode(form.whole([sequence], "v1", 0.0))
    assert spelt == whole["choices"][0]["message"]["content"]
    assert isinstance(json.loads(spelt), dict)


def test_a_refit_leaves_json_whole(talk):
    call = talk.call_of("chat", messages=[{"content": "hi"}], response_format=FORMATS[1])
    (sequence,) = talk.sequences_of(call)

    other = Writer("m", 0).write(call.prompts[0], call.samplings[0], 0, "v2")
    assert other.text == sequence.output.text


@pytest.mark.parametrize(
    "body",
    [
        {"tool_choice": "required"},
        {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "three"}}},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"properties": 3}}}},
    ],
)
def test_what_cannot_be_done_is_refused(body):
    with pytest.raises(SimError) as refused:
        Reader(10, 1000).generation("chat", msgspec.json.encode({"messages": [{"content": "hi"}], **body}))
    assert refused.value.status == 400
