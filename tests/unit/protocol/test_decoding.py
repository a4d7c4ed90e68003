import json
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.protocol.decisions import DecisionsRequest
from smg.protocol.decoding import KINDS, decode
from smg.protocol.failures import ParseFailure
from smg.protocol.messages import Assistant, Developer, Function, Part, Root, System, Tool, User
from smg.protocol.model_member import tally
from smg.protocol.requests import (
    CallSession,
    ChatRequest,
    ClassifyRequest,
    ClientSecretRequest,
    CompletionRequest,
    CountTokensRequest,
    EmbeddingRequest,
    GenerateRequest,
    InteractionRequest,
    MessagesRequest,
    RealtimeSessionRequest,
    RerankRequest,
    ResponsesRequest,
)

HELLO = {"role": "user", "content": "Hi"}
CHAT = {"model": "m", "messages": [HELLO]}
RAW = json.dumps(CHAT).encode()


def chat(**fields):
    return decode(ChatRequest, json.dumps({**CHAT, **fields}).encode())


def refused(body, kind=ChatRequest):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(ParseFailure) as caught:
        decode(kind, raw)
    return caught.value.message


def with_member(text: bytes) -> bytes:
    return RAW[:-1] + b", " + text + b"}"


@pytest.mark.parametrize(
    ("kind", "least"),
    [
        (ChatRequest, CHAT),
        (CompletionRequest, {"model": "m", "prompt": "x"}),
        (GenerateRequest, {}),
        (EmbeddingRequest, {"model": "m", "input": "x"}),
        (ClassifyRequest, {"model": "m", "input": ["x"]}),
        (RerankRequest, {"query": "q", "documents": ["d", {"text": "e"}]}),
        (DecisionsRequest, {"model": "m", "input": "x", "questions": []}),
        (ResponsesRequest, {"input": "x"}),
        (CountTokensRequest, {"model": "m", "messages": [{"role": "user", "content": "x"}]}),
        (MessagesRequest, {"model": "m", "max_tokens": 1, "messages": []}),
        (InteractionRequest, {"input": [{"text": "x"}]}),
    ],
)
def test_the_least_request_of_each_kind_decodes_and_each_of_its_members_is_required(kind, least):
    decode(kind, json.dumps(least).encode())
    for name in least:
        assert name in refused({key: value for key, value in least.items() if key != name}, kind)


def test_every_kind_has_a_decoder():
    assert set(KINDS) == {
        ChatRequest,
        CompletionRequest,
        GenerateRequest,
        EmbeddingRequest,
        ClassifyRequest,
        RerankRequest,
        DecisionsRequest,
        ResponsesRequest,
        CountTokensRequest,
        MessagesRequest,
        InteractionRequest,
        RealtimeSessionRequest,
        ClientSecretRequest,
        CallSession,
    }


@pytest.mark.parametrize(
    "body",
    [
        b"",
        RAW[:-1],
        b"{",
        RAW + b"x",
        RAW + RAW,
        b"[]",
        b'"text"',
        b"null",
        json.dumps(CHAT).encode("utf-16"),
        b"\xef\xbb\xbf" + RAW,
        RAW.replace(b'"', b"'"),
        RAW[:-1] + b",}",
        RAW[:-1] + b"/* */}",
        RAW.replace(b"Hi", b"H\x01i"),
        RAW.replace(b"Hi", b"H\ni"),
        with_member(b'"x": NaN'),
        with_member(b'"temperature": NaN'),
        with_member(b'"x": -Infinity'),
        with_member(b'"x": 01'),
        with_member(b'"x": "\\q"'),
        with_member(b'"x": "\\ud800"'),
        with_member(b'"x": "a\x1fb"'),
        with_member(b'"temperature": 1e999'),
    ],
)
def test_what_is_not_strict_json_is_refused(body):
    refused(body)


@pytest.mark.parametrize(
    "body",
    [
        RAW.replace(b"Hi", b"H\xff"),
        with_member(b'"x": "\xff"'),
        with_member(b'"\xff": 1'),
        with_member(b'"x": {"y": ["\xed\xa0\x80"]}'),
        with_member(b'"x": "\xc3\xa9 \xc0\x80"'),
    ],
    ids=["read", "skipped", "name", "surrogate", "overlong"],
)
def test_broken_utf_8_is_refused_wherever_it_stands(body):
    assert "UTF-8" in refused(body)


@pytest.mark.parametrize("value", [b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 50_000 + b"1" + b"}" * 50_000])
def test_a_body_that_nests_too_deeply_is_refused(value):
    assert "deep" in refused(with_member(b'"x": ' + value))


@pytest.mark.parametrize(
    "value", ["1" + "0" * 4000, "1e999", "-5e-324", "3.14159265358979323846264338327950288", "[" * 50 + "]" * 50]
)
def test_values_of_unknown_members_are_skipped_whatever_their_size(value):
    decode(ChatRequest, with_member(b'"x": ' + value.encode()))


@pytest.mark.parametrize("text", ["naïve 模型 \U0001f600", "", "\u2028 \x7f"])
def test_text_outside_ascii_decodes_in_both_spellings(text):
    for escaped in (True, False):
        body = json.dumps({"model": text, "messages": [], "x": text}, ensure_ascii=escaped).encode()
        assert decode(ChatRequest, body).model == text


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", 5),
        ("model", None),
        ("messages", "x"),
        ("messages", None),
        ("stream", "true"),
        ("stream", 1),
        ("temperature", "0.5"),
        ("temperature", True),
        ("n", 1.5),
        ("n", True),
        ("n", 10**30),
        ("max_tokens", "5"),
        ("stop", 3),
        ("stop", ["a", 3]),
        ("stream_options", True),
        ("stream_options", {"include_usage": "yes"}),
        ("logprobs", 3),
        ("logit_bias", [1]),
        ("tools", {}),
        ("tools", [{"function": {"name": "f"}}]),
        ("tools", [{"type": "function", "function": {}}]),
        ("tool_choice", "sometimes"),
        ("tool_choice", {"type": "function"}),
        ("tool_choice", {"type": "allowed_tools", "mode": "never", "tools": []}),
        ("tool_choice", {"type": "other"}),
        ("response_format", "text"),
        ("response_format", {"type": "grammar"}),
        ("response_format", {"type": "json_schema"}),
        ("response_format", {"type": "json_schema", "json_schema": {"schema": {}}}),
        ("thinking", "enabled"),
        ("thinking", {"type": "maybe"}),
        ("thinking", {"type": ""}),
        ("reasoning_effort", True),
        ("reasoning_effort", ["low"]),
        ("min_tokens", -1),
        ("stop_token_ids", ["1"]),
        ("chat_template_kwargs", []),
        ("rid", 7),
        ("user", {}),
    ],
)
def test_a_chat_member_of_a_wrong_type_is_refused_and_named(field, value):
    assert field in refused({**CHAT, field: value})


@pytest.mark.parametrize("name", [name for name in ChatRequest.__struct_fields__ if name not in CHAT])
def test_null_counts_as_absent_in_a_chat(name):
    chat(**{name: None})


@pytest.mark.parametrize(
    "name", [name for name in CompletionRequest.__struct_fields__ if name not in {"model", "prompt"}]
)
def test_null_counts_as_absent_in_a_completion(name):
    decode(CompletionRequest, json.dumps({"model": "m", "prompt": "x", name: None}).encode())


@pytest.mark.parametrize(
    "message",
    [
        {"role": "wizard", "content": "x"},
        {"content": "x"},
        {"role": None, "content": "x"},
        {"role": "user"},
        {"role": "user", "content": None},
        {"role": "user", "content": 5},
        {"role": "user", "content": [5]},
        {"role": "user", "content": "x", "name": 5},
        {"role": "developer"},
        {"role": "tool", "content": "x"},
        {"role": "tool", "tool_call_id": "c"},
        {"role": "assistant", "tool_calls": {}},
        "x",
        None,
    ],
)
def test_a_malformed_message_is_refused(message):
    assert "messages[1]" in refused({"model": "m", "messages": [HELLO, message]})


def test_each_role_has_its_type():
    messages = [
        {"role": "system"},
        {"role": "developer", "content": "d"},
        {"role": "user", "content": "u", "name": "ann"},
        {"content": None, "role": "assistant", "tool_calls": [{"id": "c", "type": "function", "x": 1}]},
        {"role": "tool", "tool_call_id": "c", "content": "t", "reasoning": {"any": "thing"}},
        {"role": "function", "name": "f", "content": "42"},
        {"role": "root", "content": "r"},
    ]
    found = [type(message) for message in chat(messages=messages).messages]
    assert found == [System, Developer, User, Assistant, Tool, Function, Root]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "text": "x"},
        {"type": "text"},
        {"type": "text", "text": 5},
        {"type": "hologram", "hologram": {"z": [None]}},
        {"type": "image_url", "image_url": "no object"},
        {"type": ["odd"]},
        {"weird": True},
        {},
    ],
)
def test_any_content_part_is_taken(part):
    (message,) = chat(messages=[{"role": "user", "content": [part]}]).messages
    assert message.content == [Part(part.get("type"), part.get("text"))]


def test_choices_and_formats_are_told_apart():
    named = {"type": "function", "function": {"name": "f"}}
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}
    assert chat(tool_choice="auto").tool_choice == "auto"
    assert chat(tool_choice=named).tool_choice.function.name == "f"
    assert chat(tool_choice=allowed).tool_choice.tools[0].name == "f"
    schema = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"a": 1.50}}}
    assert bytes(chat(response_format=schema).response_format.json_schema.schema) == b'{"a": 1.5}'


@pytest.mark.parametrize("prompt", [None, 5, {"text": "x"}, [1, 2], ["a", None]])
def test_a_prompt_that_is_no_text_is_refused(prompt):
    refused({"model": "m", "prompt": prompt}, CompletionRequest)


@pytest.mark.parametrize("field", [{"logprobs": True}, {"json_schema": {}}, {"max_tokens": -1}, {"best_of": 1.0}])
def test_a_completion_member_of_a_wrong_type_is_refused(field):
    refused({"model": "m", "prompt": "x", **field}, CompletionRequest)


def test_generate_takes_any_sampling_parameters_and_input():
    body = b'{"text": null, "input_ids": [[1, 2], [3]], "sampling_params": {"custom_params": {"x": [1e400]}}}'
    request = decode(GenerateRequest, body)
    assert (request.model, bytes(request.input_ids)) == (None, b"[[1, 2], [3]]")


@pytest.mark.parametrize("second", [b'"model": "m"', b'"model": "other"', b'"mod\\u0065l": "other"'])
def test_a_second_model_is_refused(second):
    assert "more than once" in refused(with_member(second))
    assert "more than once" in refused(b"{" + second + b", " + RAW[1:])


def test_other_mentions_of_a_model_are_no_second_one():
    text = '"model": "other"'
    request = decode(ChatRequest, json.dumps({**CHAT, "x": {"model": "a", "y": [{"model": 1}]}, "z": text}).encode())
    assert request.model == "m"


def test_a_refusal_leaves_no_trace_in_the_next_request():
    refused(with_member(b'"model": "other"'))
    refused(with_member(b'"model": "other"')[:-1])
    assert chat().model == "m"


def test_models_met_in_another_thread_do_not_count_here():
    tally.models = 1
    other = Thread(target=refused, args=[with_member(b'"model": "other"')])
    other.start()
    other.join()
    assert tally.models == 1


def test_a_long_wrong_value_is_not_repeated_whole():
    assert len(refused({"model": "m", "messages": [{"role": "x" * 100_000, "content": ""}]})) < 400


@pytest.mark.parametrize("kind", KINDS)
@given(
    st.lists(
        st.sampled_from([b"{", b"}", b"[", b"]", b'"', b":", b",", b"\\u00e9", b"\xc3\xa9", b"\xff", b"1", b"."])
        | st.binary(max_size=2),
        max_size=12,
    )
)
def test_what_decodes_is_json_to_a_strict_reader_too(kind, pieces):
    least = {"model": "m", "messages": [], "prompt": "", "input": "", "query": "", "documents": [], "questions": []}
    body = json.dumps(least).encode()[:-1] + b', "x": "' + b"".join(pieces) + b'"}'
    try:
        decode(kind, body)
    except ParseFailure:
        return
    assert isinstance(json.loads(body.decode("utf-8", "strict")), dict)


@given(st.dictionaries(st.text(), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists)))
def test_unknown_members_never_make_a_chat_unreadable(extra):
    unknown = {name: value for name, value in extra.items() if name not in ChatRequest.__struct_fields__}
    assert chat(**unknown).messages[0].content == "Hi"


@pytest.mark.parametrize("spelling", ["1" * 4301, "-" + "1" * 4301, "1" * 9000])
def test_an_integer_beyond_what_readers_take_is_refused_even_where_nobody_reads_it(spelling):
    body = b'{"model":"m","messages":[],"x":[%s]}' % spelling.encode()
    with pytest.raises(ParseFailure, match="4300 digits"):
        decode(ChatRequest, body)


@pytest.mark.parametrize("value", ["1" * 4300, '"' + "1" * 9000 + '"', "0." + "3" * 9000])
def test_long_digits_that_are_no_long_integer_pass(value):
    body = b'{"model":"m","messages":[],"x":[%s]}' % value.encode()
    assert decode(ChatRequest, body).model == "m"
