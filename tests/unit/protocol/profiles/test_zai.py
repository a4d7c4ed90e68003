import pytest

GLM, GLM_53 = "glm-4.5", "zai-org/GLM-5.3"
USER = {"role": "user", "content": "Hi"}
FILE = {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "file_url", "file_url": {"url": "u"}}]}


@pytest.mark.parametrize(
    ("fields", "older", "newest"),
    [
        ({"reasoning_effort": "low"}, True, True),
        ({"reasoning_effort": "minimal"}, True, False),
        ({"reasoning_effort": "LOW"}, False, False),
        ({"reasoning_effort": 50}, False, False),
        ({"thinking": {"effort": "xhigh"}}, True, False),
        ({"thinking": {"effort": "extreme"}}, False, False),
        ({"thinking": {"effort": "high"}, "reasoning_effort": "extreme"}, False, False),
        ({"thinking": {"type": "adaptive"}}, False, False),
        ({"thinking": {"type": "disabled"}}, True, False),
        ({"thinking": {"type": "enabled"}}, True, True),
        ({"tools": [{"type": "retrieval"}]}, False, False),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, True, True),
    ],
)
def test_what_the_family_takes(settled, fields, older, newest):
    assert (settled(GLM, **fields).broken == []) is older
    assert (settled(GLM_53, **fields).broken == []) is newest


def test_files_are_not_fetched(settled):
    assert "file_url" in settled(GLM, FILE).broken[0]
    assert settled("gpt-4o", FILE).broken == []


@pytest.mark.parametrize(
    ("thinking", "variables", "expected"),
    [
        ({"clear_thinking": True}, None, {"clear_thinking": True}),
        ({"clear_thinking": False}, {"z": 1}, {"z": 1, "clear_thinking": False}),
        ({"clear_thinking": True}, {"clear_thinking": False}, {"clear_thinking": False}),
        ({"clear_thinking": True}, {"clear_thinking": None}, {"clear_thinking": True}),
    ],
)
def test_clear_thinking_is_a_variable_of_the_template(settled, thinking, variables, expected):
    assert settled(GLM, thinking=thinking, chat_template_kwargs=variables).body["chat_template_kwargs"] == expected


@pytest.mark.parametrize("value", [True, False, None])
def test_tool_stream_goes_no_further(settled, value):
    assert "tool_stream" not in settled(GLM, tool_stream=value).body


@pytest.mark.parametrize(
    ("model", "has_defaults"),
    [
        ("glm-4.6", True),
        ("zai-org/GLM-4.7-FP8", True),
        ("glm-5", True),
        ("glm-5-air", True),
        ("glm-5.3", True),
        ("glm-4.5", False),
        ("glm-4.60", False),
        ("glm-50", False),
        ("zai-x", False),
    ],
)
def test_some_generations_have_sampling_defaults(settled, model, has_defaults):
    assert settled(model).filled == ({"temperature": 1.0, "top_p": 0.95} if has_defaults else {})


def test_a_default_fills_what_is_left_out_and_nothing_else(settled):
    assert settled("glm-5", temperature=0.5).filled == {"top_p": 0.95}
