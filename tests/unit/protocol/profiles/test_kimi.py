import pytest

KIMI, K3 = "moonshotai/Kimi-K2-Instruct", "kimi-k3"
USER = {"role": "user", "content": "Hi"}


def declaring(*tools, role="system", content=None):
    return {"role": role, "content": content, "tools": list(tools)}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (None, {"include_usage": True}),
        ({}, {"include_usage": True}),
        ({"include_usage": None}, {"include_usage": True}),
        ({"include_usage": False}, {"include_usage": False}),
        ({"step_usage_chunks": 2}, {"step_usage_chunks": 2, "include_usage": True}),
    ],
)
def test_streams_report_usage_unless_told_otherwise(settled, options, expected):
    assert settled(KIMI, stream=True, stream_options=options).body["stream_options"] == expected


def test_what_is_no_stream_gets_no_stream_options(settled):
    assert settled(KIMI).filled == {}


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "f"}}])
def test_tools_of_messages_count_for_the_choice_and_stay_where_they_are(settled, tool, choice):
    found = settled(KIMI, declaring(tool("f")), USER, tool_choice=choice)
    assert found.broken == []
    assert found.filled == {}


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ({"role": "user", "content": "x", "tools": []}, "only system and developer"),
        ({"role": "assistant", "content": "x", "tools": []}, "only system and developer"),
        ({"role": "system", "tools": {}}, "must be a list of tools"),
        ({"role": "system", "tools": [1]}, "must be a list of tools"),
        ({"role": "system", "tools": [{"type": "function"}]}, "must be a list of tools"),
        ({"role": "system", "content": "x", "tools": [{"type": "function", "function": {"name": "f"}}]}, "content"),
        ({"role": "system", "tools": [{"type": "builtin_function"}]}, "of type function"),
        ({"role": "system", "tools": [{"type": "function", "function": {"name": "a-b"}}]}, "must match"),
        ({"role": "system", "tools": [{"type": "function", "function": {"name": "a" * 257}}]}, "256"),
        ({"role": "system", "tools": [{"type": "function", "function": {"name": "f"}}] * 2}, "more than once"),
    ],
)
def test_messages_declare_tools_by_rules(settled, message, says):
    (text,) = settled(KIMI, message, USER).broken
    assert text.startswith("__all__: ")
    assert says in text


def test_a_name_is_declared_once_over_messages_and_request(settled, tool):
    (text,) = settled(KIMI, declaring(tool("f")), USER, tools=[tool("f")]).broken
    assert "'f' is declared more than once" in text


def test_names_that_only_the_request_repeats_are_its_own_affair(settled, tool):
    assert settled(KIMI, USER, tools=[tool("f"), tool("f")]).broken == []


@pytest.mark.parametrize("tools", [None, []])
def test_messages_may_declare_nothing(settled, tools):
    assert settled(KIMI, {"role": "system", "content": "x", "tools": tools}, USER).broken == []


def test_k3_fixes_what_is_left_out(settled):
    defaults = {"temperature": 1.0, "top_p": 0.95, "presence_penalty": 0, "frequency_penalty": 0, "n": 1}
    assert settled(K3).filled == defaults
    assert settled(K3, temperature=0.6, top_p=None).body["temperature"] == 0.6


@pytest.mark.parametrize(
    ("field", "value", "is_allowed"),
    [
        ("temperature", 0, True),
        ("temperature", 0.6, True),
        ("temperature", 0.6000001, True),
        ("temperature", 1, True),
        ("temperature", 0.61, False),
        ("top_p", 0.95, True),
        ("top_p", 1, False),
        ("presence_penalty", 0, True),
        ("presence_penalty", 0.1, False),
        ("frequency_penalty", -0.1, False),
        ("n", 1, True),
        ("n", 2, False),
        ("thinking", {"type": "adaptive"}, False),
        ("thinking", {"type": "disabled"}, True),
        ("thinking", {"effort": "max"}, True),
        ("thinking", {"effort": "medium"}, False),
        ("reasoning_effort", "medium", True),
    ],
)
def test_k3_takes_some_values_only_and_older_models_all(settled, field, value, is_allowed):
    assert (settled(K3, **{field: value}).broken == []) is is_allowed
    assert settled(KIMI, **{field: value}).broken == []
