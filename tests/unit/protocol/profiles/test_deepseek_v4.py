import pytest

V4, V41 = "deepseek-v4-flash", "deepseek-ai/DeepSeek-V4.1-Flash"
TOOL = {"type": "function", "function": {"name": "f"}}
NAMED = {"type": "function", "function": {"name": "f"}}


def allowed(mode):
    return {"type": "allowed_tools", "mode": mode, "tools": [NAMED["function"]]}


@pytest.mark.parametrize(
    ("effort", "of_v4", "of_v41"),
    [
        ("none", "none", "none"),
        ("minimal", "low", "low"),
        ("medium", "high", "high"),
        ("high", "high", "high"),
        ("xhigh", "high", "xhigh"),
        ("max", "max", "max"),
        (1, None, "1"),
        ("100", None, "100"),
        ("050", None, "050"),
        (0, None, None),
        (101, None, None),
        (0.5, None, None),
        ("1" * 5000, None, None),
        ("extreme", None, None),
    ],
)
def test_efforts_are_mapped_to_what_the_models_know(settled, effort, of_v4, of_v41):
    for model, expected in ((V4, of_v4), (V41, of_v41)):
        found = settled(model, reasoning_effort=effort)
        assert (found.broken == []) is (expected is not None)
        if expected is not None:
            assert found.body["reasoning_effort"] == expected
            assert settled(model, thinking={"effort": str(effort)}).body["thinking"] == {"effort": expected}


def test_the_effort_that_the_other_shadows_is_checked_too(settled):
    (text,) = settled(V4, thinking={"effort": "high"}, reasoning_effort="extreme").broken
    assert "reasoning_effort" in text


@pytest.mark.parametrize(
    ("fields", "thinks"),
    [
        ({}, True),
        ({"thinking": {"type": "enabled"}, "reasoning_effort": "none"}, True),
        ({"thinking": {"type": "disabled"}}, False),
        ({"reasoning_effort": "none"}, False),
        ({"thinking": {"effort": "none"}, "reasoning_effort": "high"}, False),
        ({"thinking": {"effort": "high"}, "reasoning_effort": "none"}, True),
        ({"chat_template_kwargs": {"thinking": None}}, True),
        ({"chat_template_kwargs": {"enable_thinking": False}}, False),
        ({"chat_template_kwargs": {"reasoning_effort": "none"}}, False),
        ({"chat_template_kwargs": {"reasoning_effort": "low"}, "thinking": {"type": "disabled"}}, True),
        ({"chat_template_kwargs": {"thinking": True}, "thinking": {"type": "disabled"}}, True),
    ],
)
@pytest.mark.parametrize("model", [V4, V41])
def test_the_template_is_told_whether_to_think(settled, model, fields, thinks):
    found = settled(model, **fields)
    assert found.broken == []
    assert found.body["chat_template_kwargs"] == {
        **fields.get("chat_template_kwargs", {}),
        "thinking": thinks,
    }
    forced = settled(model, tools=[TOOL], tool_choice="required", **fields)
    assert (forced.broken == []) is not thinks


@pytest.mark.parametrize(
    ("choice", "is_forced"),
    [
        ("auto", False),
        ("none", False),
        (allowed("auto"), False),
        ("required", True),
        (NAMED, True),
        (allowed("required"), True),
    ],
)
def test_no_tool_is_forced_on_a_model_that_thinks(settled, choice, is_forced):
    assert (settled(V4, tools=[TOOL], tool_choice=choice).broken != []) is is_forced


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"thinking": "yes"}, "must be a boolean"),
        ({"enable_thinking": 1}, "must be a boolean"),
        ({"thinking": True, "enable_thinking": False}, "disagree"),
        ({"thinking": False, "enable_thinking": True}, "disagree"),
    ],
)
def test_overrides_that_make_no_sense_are_refused(settled, variables, says):
    assert any(says in text for text in settled(V4, chat_template_kwargs=variables).broken)


def test_overrides_that_agree_pass(settled):
    variables = {"thinking": True, "enable_thinking": True}
    found = settled(V4, chat_template_kwargs=variables)
    assert (found.broken, found.filled) == ([], {})
