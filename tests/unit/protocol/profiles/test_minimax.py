import pytest

MODEL = "MiniMaxAI/MiniMax-M2"
USER = {"role": "user", "content": "Hi"}


def calls(*ids, arguments="{}"):
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": i, "type": "function", "function": {"name": "f", "arguments": arguments}} for i in ids],
    }


def answer(identifier):
    return {"role": "tool", "tool_call_id": identifier, "content": "42"}


def test_root_messages_move_to_the_front_in_their_order_and_keep_their_members(settled):
    found = settled(
        MODEL,
        {"role": "system", "content": "s"},
        {"role": "root", "content": "r1", "name": "n", "x": 1e-7},
        USER,
        {"role": "root", "content": [{"type": "text", "text": "r2"}]},
    )
    assert found.broken == []
    assert found.body["messages"] == [
        {"role": "system", "content": "r1", "name": "n", "x": 1e-7},
        {"role": "system", "content": [{"type": "text", "text": "r2"}]},
        {"role": "system", "content": "s"},
        USER,
    ]
    assert [message.content for message in found.request.messages][::2] == ["r1", "s"]
    assert b'"x":1e-07' in found.edited


def test_foreign_tools_and_root_messages_are_both_seen_to(settled):
    found = settled(MODEL, USER, {"role": "root", "content": "r", "tools": []})
    assert found.foreign
    assert found.body["messages"] == [{"role": "system", "content": "r"}, USER]


@pytest.mark.parametrize(
    ("history", "says"),
    [
        ([calls("a", "a"), answer("a")], "more than once"),
        ([calls("a"), answer("a"), calls("a"), answer("a")], "more than once"),
        ([calls("a"), answer("b")], "answers no pending"),
        ([answer("a")], "answers no pending"),
        ([calls("a"), answer("a"), answer("a")], "answers no pending"),
        ([calls("a", arguments="[1]"), answer("a")], "JSON object"),
        ([calls("a", arguments="{broken"), answer("a")], "JSON object"),
        ([calls("a", arguments='"text"'), answer("a")], "JSON object"),
        ([calls("a", arguments=[1]), answer("a")], "JSON object"),
        ([calls("a")], "no tool message"),
        ([calls("a", "b"), answer("a"), USER], "no tool message"),
        ([{"role": "assistant", "content": None, "tool_calls": [{"id": "a", "function": 1}]}], "calls of functions"),
    ],
)
def test_a_history_that_is_not_sound_is_refused(settled, history, says):
    broken = settled(MODEL, USER, *history).broken
    assert any(says in text for text in broken)
    assert settled("gpt-4o", USER, *history).broken == []


@pytest.mark.parametrize(
    "history",
    [
        [calls("a"), answer("a"), USER],
        [calls("a", "b"), answer("b"), answer("a")],
        [calls("a"), USER, answer("a")],
        [calls("a", arguments=""), answer("a")],
        [calls("a", arguments=" \n"), answer("a")],
        [calls("a", arguments={"x": 1}), answer("a")],
        [calls("a", arguments='{"x": {"y": [1]}}'), answer("a"), calls("b"), answer("b")],
    ],
)
def test_a_sound_history_passes_as_it_is(settled, history):
    found = settled(MODEL, USER, *history)
    assert (found.broken, found.filled) == ([], {})
