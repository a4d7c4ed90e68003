"""A realtime session as a state, and the events of its responses."""

import base64
import json

import msgspec
import pytest

from smg.sim import conversation as module
from smg.sim.conversation import Conversation
from smg.sim.dialect import SimError
from smg.sim.realtime_form import RealtimeForm

HELLO = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
TOOL = {"type": "function", "name": "find", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}


@pytest.fixture
def talked():
    return Conversation("m", "s")


def chat(talked, **response):
    return json.loads(talked.chat({"type": "response.create", "response": response}))


def create(talked, item):
    return talked.take({"type": "conversation.item.create", "item": item})


def respond(talk, talked, **response):
    call = talk.call_of("chat", **chat(talked, **response))
    return RealtimeForm(talked, call, "resp_1"), talk.sequences_of(call)[0]


def events(raw):
    return [msgspec.json.decode(line) for line in raw.split(b"\n\n") if line]


def test_a_session_greets_and_takes_its_settings(talked):
    assert talked.greeting()["session"]["model"] == "m"
    (updated,) = talked.take({"type": "session.update", "session": {"instructions": "Be brief.", "model": "other"}})
    assert updated["session"]["instructions"] == "Be brief."
    assert updated["session"]["model"] == "m"
    assert chat(talked)["messages"][0] == {"role": "system", "content": "Be brief."}


def test_items_follow_each_other(talked):
    first = create(talked, HELLO)[0]
    added, done = create(talked, {**HELLO, "id": "mine"})
    assert (added["type"], done["type"]) == ("conversation.item.added", "conversation.item.done")
    assert (added["item"]["id"], added["previous_item_id"]) == ("mine", first["item"]["id"])
    talked.take({"type": "conversation.item.delete", "item_id": "mine"})
    assert len(chat(talked)["messages"]) == 1


def test_ids_are_never_given_twice(talked):
    given = [talked.event("x")["event_id"] for _ in range(100)]
    assert len(set(given)) == 100


def test_what_is_heard_is_an_item_that_follows_from_the_bytes():
    said = []
    for audio in (b"a", b"a", b"b"):
        talked = Conversation("m", "s")
        talked.take({"type": "input_audio_buffer.append", "audio": base64.b64encode(audio).decode()})
        committed, added, _ = talked.take({"type": "input_audio_buffer.commit"})
        assert committed["item_id"] == added["item"]["id"]
        said.append(chat(talked)["messages"])
    assert said[0] == said[1] != said[2]


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"type": "nonsense"},
        {"type": "session.update"},
        {"type": "conversation.item.create", "item": "x"},
        {"type": "conversation.item.delete", "item_id": "nobody"},
        {"type": "input_audio_buffer.append", "audio": "?"},
        {"type": "input_audio_buffer.commit"},
    ],
)
def test_what_cannot_be_followed_is_refused(talked, event):
    with pytest.raises(SimError):
        talked.take(event)


def test_a_conversation_is_bounded(talked, monkeypatch):
    monkeypatch.setattr(module, "MOST_ITEMS", 2)
    create(talked, HELLO)
    create(talked, HELLO)
    with pytest.raises(SimError):
        create(talked, HELLO)
    monkeypatch.setattr(module, "MOST_BYTES", 200)
    with pytest.raises(SimError):
        create(Conversation("m", "s"), {**HELLO, "content": "x" * 200})
    monkeypatch.setattr(module, "MOST_AUDIO_BYTES", 3)
    with pytest.raises(SimError):
        talked.take({"type": "input_audio_buffer.append", "audio": base64.b64encode(b"four").decode()})


def test_a_response_has_its_events_in_order_and_joins_the_conversation(talk, talked):
    create(talked, HELLO)
    form, sequence = respond(talk, talked)
    rows = events(talk.stream(form, sequence, 2, sequence.output.tokens) + form.ending([sequence]))
    deltas = [row["delta"] for row in rows if row["type"] == "response.output_text.delta"]
    assert [row["type"] for row in rows] == [
        *("response.created", "response.output_item.added", "response.content_part.added"),
        *["response.output_text.delta"] * len(deltas),
        *("response.output_text.done", "response.content_part.done", "response.output_item.done"),
        *("conversation.item.added", "conversation.item.done", "response.done"),
    ]
    assert "".join(deltas) == sequence.output.text
    assert rows[-1]["response"]["status"] == "completed"
    assert rows[-1]["response"]["usage"]["output_tokens"] == sequence.output.tokens
    assert chat(talked)["messages"][-1]["content"][0]["text"] == sequence.output.text


@pytest.mark.parametrize("produced", [0, 2])
def test_a_response_that_is_cancelled_ends_where_it_is(talk, talked, produced):
    create(talked, HELLO)
    form, sequence = respond(talk, talked)
    raw = b""
    if produced:
        sequence.produced = produced
        raw = form.opening(0) + form.events(sequence, 0, "v1")
    rows = events(raw + form.cancelled())
    assert (rows[0]["type"], rows[-1]["type"]) == ("response.created", "response.done")
    assert rows[-1]["response"]["status"] == "cancelled"
    assert rows[-1]["response"]["output"][0]["content"][0]["text"] == sequence.output.text[: produced * 4]


def test_a_forced_tool_is_called(talk, talked):
    create(talked, HELLO)
    form, sequence = respond(talk, talked, tools=[TOOL], tool_choice="required")
    rows = events(talk.stream(form, sequence, sequence.output.tokens) + form.ending([sequence]))
    (item,) = rows[-1]["response"]["output"]
    assert (item["type"], item["name"], list(json.loads(item["arguments"]))) == ("function_call", "find", ["x"])
    answer = {"type": "function_call_output", "call_id": item["call_id"], "output": "3"}
    create(talked, answer)
    assert [turn["role"] for turn in chat(talked)["messages"]] == ["user", "assistant", "tool"]
