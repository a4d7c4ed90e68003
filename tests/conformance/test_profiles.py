"""What every provider profile must do, whichever vendor it is of."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.protocol.body import edit
from smg.protocol.contracts import settle
from smg.protocol.decoding import decode
from smg.protocol.profiles import profile_of
from smg.protocol.requests import ChatRequest

PROFILES = {
    "gpt-4o": "baseline",
    "Qwen/Qwen3-4B": "baseline",
    "my-kimi": "baseline",
    "THUDM/chatglm3-6b": "baseline",
    "deepseek-v4-flash-0701": "baseline",
    "deepseek-ai/DeepSeek-V3.1": "baseline",
    "kimi-latest": "kimi",
    "moonshot-v1-128k": "kimi",
    "/models/kimi-k3": "kimi-k3",
    "moonshotai/Kimi_K3-turbo": "kimi-k3",
    "hub/minimax-m1/fp8": "minimax",
    "abab6.5s-chat": "minimax",
    "glm-4.5-air": "z.ai",
    "Z-AI/model": "z.ai",
    "zai-org/GLM-5.3-Air": "glm-5.3",
    "glm5-3": "glm-5.3",
    "deepseek-flash": "deepseek-v4",
    "deepseek-ai/DeepSeek-V4-Pro": "deepseek-v4",
    "/data/deepseek-v4.1-flash/hf": "deepseek-v4.1",
}
MODELS = sorted({name: model for model, name in PROFILES.items()}.values())


@pytest.mark.parametrize(("model", "profile"), PROFILES.items())
def test_a_profile_is_found_by_a_segment_of_the_name(model, profile):
    assert profile_of(model).name == profile


def chat(**members):
    return json.dumps({"messages": [{"role": "user", "content": "Hi"}], **members}).encode()


def settled(body):
    request = decode(ChatRequest, body)
    edits, broken, foreign = settle(request, body)
    return edit(body, edits), broken, foreign


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "stream": st.just(True),
        "temperature": st.sampled_from([0, 0.6, 1, None]),
        "top_p": st.sampled_from([0.95, None]),
        "reasoning_effort": st.sampled_from(["none", "low", "medium", "max", 7]),
        "thinking": st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["enabled", "disabled"]),
                "effort": st.sampled_from(["low", "xhigh"]),
                "clear_thinking": st.booleans(),
            },
        ),
        "chat_template_kwargs": st.dictionaries(st.sampled_from(["thinking", "enable_thinking", "x"]), st.booleans()),
        "tool_stream": st.booleans(),
        "max_tokens": st.just(8),
        "unknown": st.just([1.50, {"é": None}]),
    },
)


@given(model=st.sampled_from(MODELS), fields=FIELDS)
def test_what_has_its_form_keeps_it(model, fields):
    """Settling twice is settling once, so it does not matter how many gateways a request passes."""
    once, broken, _ = settled(chat(model=model, **fields))
    if not broken:
        assert settled(once)[:2] == (once, [])


@given(model=st.sampled_from(MODELS), fields=FIELDS)
def test_what_a_profile_does_not_know_stays_as_it_was(model, fields):
    sent = {"model": model, "seed_of_a_vendor": 1, **fields}
    body = json.loads(settled(chat(**sent))[0])
    assert body["seed_of_a_vendor"] == 1
    assert body.get("unknown") == fields.get("unknown")
    assert body["messages"] == [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize("model", MODELS)
def test_tools_of_messages_reach_the_family_they_are_for(model):
    messages = [{"role": "system", "content": None, "tools": [], "x": 1.5}, {"role": "user", "content": "Hi"}]
    body, broken, foreign = settled(chat(model=model, messages=messages))
    takes = profile_of(model).takes_message_tools
    assert (broken, foreign) == ([], not takes)
    assert ("tools" in json.loads(body)["messages"][0]) is takes
    assert json.loads(body)["messages"][0]["x"] == 1.5


@pytest.mark.parametrize("model", MODELS)
def test_a_text_about_tools_is_no_extension(model):
    messages = [{"role": "user", "content": 'say "tools"', "tools": None}]
    assert settled(chat(model=model, messages=messages))[2] is False
