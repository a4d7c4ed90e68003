import json

import pytest

from smg.protocol.decoding import decode
from smg.protocol.requests import ChatRequest, CompletionRequest, GenerateRequest, RerankRequest
from smg.protocol.rules import RULES, violations

CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
COMPLETION = {"model": "m", "prompt": "Hi"}
TOOL = {"type": "function", "function": {"name": "lookup", "parameters": {"type": "object"}}}


def chat(**fields):
    return violations(decode(ChatRequest, json.dumps({**CHAT, **fields}).encode()))


def completion(**fields):
    return violations(decode(CompletionRequest, json.dumps({**COMPLETION, **fields}).encode()))


def named(name):
    return {"type": "function", "function": {"name": name}}


def allowed(*names):
    tools = [{"type": "function", "name": name} for name in names]
    return {"type": "allowed_tools", "mode": "required", "tools": tools}


def schema(value, name="answer"):
    return {"type": "json_schema", "json_schema": {"name": name, "schema": value}}


RANGES_OF_BOTH = [
    ("temperature", [0, 0.7, 2], [-0.1, 2.1]),
    ("top_p", [0.0001, 1], [0, -0.5, 1.1]),
    ("presence_penalty", [-2, 2], [-2.1, 2.1]),
    ("frequency_penalty", [-2, 2], [-2.1, 2.1]),
    ("stop", ["a", [], ["a", "b", "c", "d"]], [["a", "b", "c", "d", "e"], "", ["a", ""]]),
    ("top_k", [-1, 1, 10**6], [0, -2]),
    ("min_p", [0, 1], [-0.1, 1.1]),
    ("repetition_penalty", [0, 2], [-0.1, 2.1]),
]
RANGES_OF_CHAT = [
    *RANGES_OF_BOTH,
    ("n", [1, 10], [0, 11, -1]),
    ("max_completion_tokens", [1, 2**62], [0, -1]),
    ("max_tokens", [1], [0]),
]
RANGES_OF_COMPLETIONS = [
    *RANGES_OF_BOTH,
    ("n", [1, 128], [0, 129]),
    ("best_of", [0, 1, 20], [21, -1]),
    ("logprobs", [0, 5], [6, -1]),
    ("prompt", ["", ["one"], ["one", "two"]], [[]]),
]


@pytest.mark.parametrize(("field", "good", "bad"), RANGES_OF_CHAT)
def test_a_chat_value_must_be_in_its_range(field, good, bad):
    assert [chat(**{field: value}) for value in good] == [[]] * len(good)
    for value in bad:
        (message,) = chat(**{field: value})
        assert message.startswith(f"{field}: ")
        assert json.dumps(value, separators=(",", ":")) in message


@pytest.mark.parametrize(("field", "good", "bad"), RANGES_OF_COMPLETIONS)
def test_a_completion_value_must_be_in_its_range(field, good, bad):
    assert [completion(**{field: value}) for value in good] == [[]] * len(good)
    for value in bad:
        (message,) = completion(**{field: value})
        assert message.startswith(f"{field}: ")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"logprobs": True, "top_logprobs": 0},
        {"logprobs": True, "top_logprobs": 20},
        {"stream": True, "stream_options": {"include_usage": True, "x": 1}},
        {"min_tokens": 7, "max_completion_tokens": 7},
        {"min_tokens": 7, "max_tokens": 3, "max_completion_tokens": 7},
        {"min_tokens": 7},
        {"regex": "a+"},
        {"ebnf": "root ::= 'a'", "response_format": {"type": "text"}},
        {"response_format": {"type": "json_object"}},
        {"response_format": schema({})},
        {"tool_choice": "none"},
        {"tool_choice": "auto", "tools": []},
        {"tools": [TOOL], "tool_choice": "required"},
        {"tools": [TOOL], "tool_choice": named("lookup")},
        {"tools": [TOOL, {"type": "web"}], "tool_choice": allowed("lookup")},
        {"messages": [{"role": "assistant", "content": ""}, {"role": "system"}]},
        {"messages": [{"role": "user", "content": " "}]},
        {"messages": [{"role": "user", "content": [{"odd": 1}]}]},
    ],
)
def test_a_consistent_chat_violates_nothing(fields):
    assert chat(**fields) == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"top_logprobs": 3, "logprobs": False}, "top_logprobs"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream_options": {}, "stream": False}, "stream_options"),
        ({"min_tokens": 8, "max_completion_tokens": 7}, "min_tokens"),
        ({"min_tokens": 8, "max_tokens": 7}, "min_tokens"),
        ({"min_tokens": 8, "max_tokens": 9, "max_completion_tokens": 7}, "min_tokens"),
        ({"regex": "a", "ebnf": "b"}, "regex"),
        ({"regex": "a", "response_format": schema({})}, "regex"),
        ({"regex": "a", "response_format": {"type": "json_object"}}, "regex"),
        ({"ebnf": "a", "response_format": schema({})}, "ebnf"),
        ({"ebnf": "a", "response_format": {"type": "json_object"}}, "ebnf"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": "required", "tools": []}, "tool_choice"),
        ({"tool_choice": named("lookup")}, "tool_choice"),
        ({"tool_choice": allowed("lookup")}, "tool_choice"),
        ({"tool_choice": named("other"), "tools": [TOOL]}, "tool_choice"),
        ({"tool_choice": allowed("lookup", "other"), "tools": [TOOL]}, "tool_choice"),
    ],
)
def test_contradicting_chat_members_are_one_violation_of_the_whole(fields, field):
    (message,) = chat(**fields)
    assert message.startswith(f"__all__: {field} ")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"best_of": 2, "n": 2}, "best_of"),
        ({"best_of": 3, "stream": True}, "best_of"),
        ({"stream_options": {}}, "stream_options"),
        ({"min_tokens": 5, "max_tokens": 4}, "min_tokens"),
        ({"regex": "a", "ebnf": "b"}, "regex"),
        ({"json_schema": "{}", "regex": "a"}, "json_schema"),
        ({"json_schema": "{}", "ebnf": "a"}, "json_schema"),
    ],
)
def test_contradicting_completion_members_are_one_violation_of_the_whole(fields, field):
    (message,) = completion(**fields)
    assert message.startswith(f"__all__: {field} ")


@pytest.mark.parametrize(
    "fields",
    [
        {"best_of": 20, "n": 19},
        {"best_of": 2},
        {"min_tokens": 4, "max_tokens": 4},
        {"json_schema": "{}"},
        {"stream": True, "stream_options": {"include_usage": True}},
    ],
)
def test_a_consistent_completion_violates_nothing(fields):
    assert completion(**fields) == []


@pytest.mark.parametrize("value", ["{}", [], True, 3, None])
def test_a_schema_must_be_an_object(value):
    (message,) = chat(response_format=schema(value))
    assert message.startswith("response_format: ")


def test_a_schema_must_be_there_and_have_a_name():
    absent = {"type": "json_schema", "json_schema": {"name": "a"}}
    assert len(chat(response_format=absent)) == 1
    assert len(chat(response_format=schema({}, name=""))) == 1


def test_a_chat_needs_messages():
    assert chat(messages=[]) == ["messages: must not be empty, got []"]


@pytest.mark.parametrize("content", ["", []])
def test_a_user_must_say_something(content):
    silent = {"role": "user", "content": content}
    (message,) = chat(messages=[*CHAT["messages"], silent, silent])
    assert message.endswith("got messages[1], messages[2]")


def test_the_root_role_is_refused_where_it_stands():
    (message,) = chat(messages=[*CHAT["messages"], {"role": "root", "content": "x"}])
    assert "root" in message
    assert message.endswith("got messages[1]")


def test_a_function_tool_needs_its_function():
    assert len(chat(tools=[{"type": "function"}])) == 1


def test_a_contradiction_shows_every_value_it_is_about():
    (message,) = chat(min_tokens=8, max_tokens=7)
    assert message.endswith("got min_tokens=8, max_completion_tokens=null, max_tokens=7")


def test_all_violations_are_reported_in_the_order_of_the_table():
    found = chat(temperature=3, n=0, top_logprobs=21)
    assert [message.partition(":")[0] for message in found] == ["n", "temperature", "top_logprobs", "__all__"]


def test_long_values_are_cut_in_messages():
    (message,) = chat(stop=["x" * 10_000] * 5)
    assert len(message) < 200


def test_rerank_needs_a_query_documents_and_positive_limits():
    def rerank(**fields):
        body = {"query": "q", "documents": ["d"], **fields}
        return violations(decode(RerankRequest, json.dumps(body).encode()))

    assert rerank() == rerank(top_k=1, top_n=3) == []
    for fields in ({"query": " "}, {"documents": []}, {"top_k": 0}, {"top_n": -1}):
        assert len(rerank(**fields)) == 1


def test_a_kind_without_rules_violates_nothing():
    assert violations(decode(GenerateRequest, b'{"sampling_params": {"temperature": 99}}')) == []


def test_the_table_names_only_members_that_its_kind_has():
    for kind, rules in RULES.items():
        for rule in rules:
            assert {rule.field, *rule.also} <= set(kind.__struct_fields__), rule
