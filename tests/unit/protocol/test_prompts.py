import json
from itertools import pairwise

import pytest

from smg.protocol.decoding import decode
from smg.protocol.prompts import cache_partition, prompt_text, prompt_tokens
from smg.protocol.requests import (
    ChatRequest,
    ClassifyRequest,
    CompletionRequest,
    EmbeddingRequest,
    GenerateRequest,
    RerankRequest,
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
