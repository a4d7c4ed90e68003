"""The Messages API says what a chat says."""

import json

import msgspec
import pytest

from smg.sim import messages
from smg.sim.dialect import SimError
from smg.sim.forms import Identity

IDENTITY = Identity("msg_1f", 1234, "m", "v1")
HI = [{"role": "user", "content": "hi"}]
TOOL = {"name": "find", "input_schema": {"type": "object", "properties": {"x": {"type": "integer"}}}}


def asked(**body):
    return messages.read(msgspec.json.encode({"model": "m", "messages": HI, "max_tokens": 100, **body}))


def message(talk, **body):
    call = talk.call_of("chat", **json.loads(asked(**body).chat))
    return messages.MessageForm(call, IDENTITY), talk.sequences_of(call)


def events(raw):
    blocks = raw.split(b"\n\n")
    assert blocks.pop() == b""
    rows = []
    for block in blocks:
        name, data = block.split(b"\ndata: ")
        rows.append(msgspec.json.decode(data))
        assert name == b"event: " + rows[-1]["type"].encode()
    return rows


def test_a_request_is_the_chat_that_says_the_same():
    chat = json.loads(
        asked(
            system="Be brief.",
            messages=[
                *HI,
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "find", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "3"}]},
            ],
            tools=[TOOL],
            tool_choice={"type": "tool", "name": "find"},
            stop_sequences=["END"],
        ).chat
    )
    assert [turn["role"] for turn in chat["messages"]] == ["system", "user", "assistant", "tool"]
    assert chat["tool_choice"]["function"]["name"] == "find"
    assert chat["tools"][0]["function"]["parameters"] == TOOL["input_schema"]
    assert (chat["stop"], chat["max_tokens"]) == (["END"], 100)


def test_a_whole_message(talk):
    form, (sequence,) = message(talk)
    sequence.cached_tokens = 4
    answer = msgspec.json.decode(form.whole([talk.finish(sequence)], "v1", 0.0))
    assert answer == {
        "id": "msg_1f",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": sequence.output.text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": sequence.prompt.tokens - 4,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 4,
            "output_tokens": sequence.output.tokens,
        },
    }


def test_why_it_stopped_is_told(talk):
    form, (sequence,) = message(talk, max_tokens=2)
    assert msgspec.json.decode(form.whole([talk.finish(sequence)], "v1", 0.0))["stop_reason"] == "max_tokens"
    word = message(talk)[1][0].output.text[4:8]
    form, (sequence,) = message(talk, stop_sequences=[word])
    answer = msgspec.json.decode(form.whole([talk.finish(sequence)], "v1", 0.0))
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("stop_sequence", word)


def test_a_stream_has_its_events_in_order_and_spells_the_text(talk):
    form, (sequence,) = message(talk, stream=True)
    rows = events(talk.stream(form, sequence, 1, 4, sequence.output.tokens) + form.ending([sequence]))
    deltas = [row["delta"]["text"] for row in rows if row["type"] == "content_block_delta"]
    assert [row["type"] for row in rows] == [
        *("message_start", "content_block_start"),
        *["content_block_delta"] * len(deltas),
        *("content_block_stop", "message_delta", "message_stop"),
    ]
    assert "".join(deltas) == sequence.output.text
    assert rows[0]["message"]["usage"]["input_tokens"] == sequence.prompt.tokens
    assert rows[-2]["usage"]["output_tokens"] == sequence.output.tokens
    assert rows[-2]["delta"]["stop_reason"] == "end_turn"


def test_a_forced_tool_is_used(talk):
    form, (sequence,) = message(talk, tools=[TOOL], tool_choice={"type": "any"})
    answer = msgspec.json.decode(form.whole([talk.finish(sequence)], "v1", 0.0))
    (block,) = answer["content"]
    assert (block["type"], block["name"], list(block["input"])) == ("tool_use", "find", ["x"])
    assert answer["stop_reason"] == "tool_use"
    form, (sequence,) = message(talk, tools=[TOOL], tool_choice={"type": "any"})
    rows = events(talk.stream(form, sequence, sequence.output.tokens))
    assert rows[1]["content_block"]["input"] == {}
    spelt = "".join(row["delta"]["partial_json"] for row in rows if row["type"] == "content_block_delta")
    assert spelt == sequence.output.text


def test_arguments_that_are_cut_off_are_none(talk):
    form, (sequence,) = message(talk, tools=[TOOL], tool_choice={"type": "any"}, max_tokens=1)
    assert msgspec.json.decode(form.whole([talk.finish(sequence)], "v1", 0.0))["content"][0]["input"] == {}


def test_an_aborted_message_is_an_error(talk):
    form, (sequence,) = message(talk)
    with pytest.raises(SimError):
        form.whole([talk.finish(sequence, "abort")], "v1", 0.0)
    assert events(form.closing(sequence, 0, "v1", 0.0))[0]["type"] == "error"


@pytest.mark.parametrize("body", [{"max_tokens": None}, {"messages": 3}, {"model": None}])
def test_what_cannot_be_answered_is_refused(body):
    with pytest.raises(SimError) as refused:
        asked(**body)
    assert refused.value.status == 400
    assert json.loads(messages.error_body(refused.value))["error"]["type"] == "invalid_request_error"


def test_counting_needs_no_limit():
    assert messages.read(msgspec.json.encode({"model": "m", "messages": HI}), counting=True)
