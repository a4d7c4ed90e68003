import json
from itertools import pairwise

import pytest

from smg.protocol.decoding import decode
from smg.protocol.prompts import cache_partition, prompt_text, prompt_tokens
from smg.protocol.requests import (
    ChatRequest,
    ClassifyRequest,
    CompletionRequest,
    CountTokensRequest,
    EmbeddingRequest,
    GenerateRequest,
    InteractionRequest,
    MessagesRequest,
    RerankRequest,
    ResponsesRequest,
)


def request(kind, **fields):
    return decode(kind, json.dumps(fields).encode())


def generate(**fields):
    return request(GenerateRequest, **fields)


def chat(*messages, **fields):
    return request(ChatRequest, model="m", messages=list(messages), **fields)


def test_a_chats_text_is_its_message_texts_in_order():
    found = prompt_text(
        chat(
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url"}, "here"]},
            {"role": "assistant", "content": None},
            {"role": "user", "content": [{"type": "text", "text": 5}, {"type": "odd", "text": "no"}]},
            {"role": "tool", "tool_call_id": "c", "content": "42"},
        )
    )
    assert found == "be brief\nlook\nhere\n42"


def test_a_longer_history_begins_with_the_shorter_one():
    turns = [{"role": "user", "content": f"turn {n}"} for n in range(5)]
    texts = [prompt_text(chat(*turns[:n])) for n in range(6)]
    for shorter, longer in pairwise(texts):
        assert longer.startswith(shorter)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (request(CompletionRequest, model="m", prompt="one"), "one"),
        (request(CompletionRequest, model="m", prompt=["one", "two"]), "one\ntwo"),
        (generate(text="one"), "one"),
        (generate(text=["one", "two"]), "one\ntwo"),
        (generate(input_ids=[1]), ""),
        (request(EmbeddingRequest, model="m", input="one"), "one"),
        (request(EmbeddingRequest, model="m", input=["one", "two"]), "one\ntwo"),
        (request(EmbeddingRequest, model="m", input=[1, 2]), ""),
        (request(ClassifyRequest, model="m", input=None), ""),
        (request(RerankRequest, query="one", documents=["two"]), "one"),
        (chat(), ""),
    ],
)
def test_every_kind_has_its_text(made, text):
    assert prompt_text(made) == text


SPEECH = [
    {"role": "user", "content": "one"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "two"}, {"type": "image"}]},
    {"type": "tool_result", "content": [{"type": "text", "text": "three"}]},
    {"type": "function_call_output", "output": "not looked at"},
    {"type": "text", "text": "four", "content": "nor this"},
    "five",
]


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (request(ResponsesRequest, input="one"), "one"),
        (request(ResponsesRequest, instructions="zero", input="one"), "zero\none"),
        (request(ResponsesRequest, input=SPEECH), "one\ntwo\nthree\nfour\nfive"),
        (request(ResponsesRequest, input={"odd": 1}), ""),
        (request(ResponsesRequest, input=[1, 2]), ""),
        (request(InteractionRequest, input=SPEECH), "one\ntwo\nthree\nfour\nfive"),
        (request(InteractionRequest, input={"type": "text"}), ""),
    ],
)
def test_an_input_of_the_newer_apis_is_its_texts_in_order(made, text):
    assert prompt_text(made) == text


@pytest.mark.parametrize("kind", [MessagesRequest, CountTokensRequest])
def test_a_prompt_of_anthropic_s_api_begins_with_its_system(kind):
    def text(**members):
        return prompt_text(request(kind, model="m", max_tokens=1, **members))

    turns = [{"role": "user", "content": "one"}, {"role": "assistant", "content": [{"type": "text", "text": "two"}]}]
    assert text(messages=turns) == "one\ntwo"
    assert text(messages=turns, system="zero") == "zero\none\ntwo"
    assert text(messages=turns, system=[{"type": "text", "text": "zero"}]) == "zero\none\ntwo"
    assert text(messages=[]) == ""


def test_a_speech_that_nests_deeply_is_no_text():
    content = "x"
    for _ in range(400):
        content = [{"content": content}]
    assert prompt_text(request(ResponsesRequest, input=content)) in {"x", ""}


@pytest.mark.parametrize(
    ("made", "tokens"),
    [
        (generate(input_ids=[1, 2, 3], text="x"), [1, 2, 3]),
        (generate(input_ids=[[1, 2], [3]]), [1, 2]),
        (generate(input_ids=[]), None),
        (generate(input_ids=[[]]), None),
        (generate(input_ids=None), None),
        (generate(input_ids="x"), None),
        (generate(input_ids=[1, [2]]), None),
        (generate(input_ids=[1.5]), None),
        (generate(text="x"), None),
        (chat(input_ids=[1]), None),
    ],
)
def test_only_generate_brings_tokens_and_a_batch_shows_its_first(made, tokens):
    assert prompt_tokens(made) == tokens


def test_prompts_without_salt_key_or_adapter_share_the_one_partition():
    for fields in ({}, {"cache_salt": None, "extra_key": "", "lora_path": "", "lora_id": []}):
        assert cache_partition(chat(**fields)) == ""
        assert cache_partition(generate(**fields)) == ""


def test_every_salt_key_or_adapter_has_a_partition_of_its_own():
    names = ["cache_salt", "extra_key", "lora_path", "lora_id"]
    made = [chat(**{name: value}) for name in names for value in ("a", "b")]
    made += [chat(cache_salt="a", extra_key="b"), chat(cache_salt="ab"), generate(lora_path=["a", None])]
    partitions = [cache_partition(one) for one in made]
    assert len(set(partitions)) == len(partitions)
    assert all(partitions)


def test_a_partition_is_the_same_on_every_route():
    for name in ("cache_salt", "extra_key", "lora_path", "lora_id"):
        assert cache_partition(chat(**{name: "a"})) == cache_partition(generate(**{name: "a"}))
