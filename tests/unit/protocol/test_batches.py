import json

import pytest

from smg.protocol.batches import batch_size, choices
from smg.protocol.decoding import decode
from smg.protocol.requests import (
    ChatRequest,
    ClassifyRequest,
    CompletionRequest,
    EmbeddingRequest,
    GenerateRequest,
    RerankRequest,
)


def chat(**members):
    return decode(ChatRequest, json.dumps({"model": "m", "messages": [], **members}).encode())


def completion(prompt, **members):
    return decode(CompletionRequest, json.dumps({"model": "m", "prompt": prompt, **members}).encode())


def generate(**members):
    return decode(GenerateRequest, json.dumps(members).encode())


@pytest.mark.parametrize(("n", "size"), [(None, None), (1, None), (2, 2), (10, 10)])
def test_a_chat_is_a_batch_of_its_choices(n, size):
    assert batch_size(chat(n=n)) == size
    assert choices(chat(n=n)) == (n or 1)


@pytest.mark.parametrize(("prompt", "size"), [("one", None), (["one"], 1), (["one", "two", "three"], 3), ([], 0)])
def test_a_completion_is_a_batch_of_its_prompts(prompt, size):
    for n in (None, 1, 5):
        assert batch_size(completion(prompt, n=n)) == size
        assert choices(completion(prompt, n=n)) == (n or 1)


@pytest.mark.parametrize(
    ("members", "size"),
    [
        ({}, None),
        ({"text": "one"}, None),
        ({"text": ["one", "two"]}, 2),
        ({"input_ids": [1, 2, 3]}, None),
        ({"input_ids": [[1, 2], [3]]}, 2),
        ({"input_ids": [[]]}, 1),
        ({"input_ids": []}, None),
        ({"input_ids": None}, None),
        ({"text": None, "input_ids": [[1], [2], [3]]}, 3),
    ],
)
def test_a_native_request_is_a_batch_of_texts_or_of_lists_of_ids(members, size):
    assert batch_size(generate(**members)) == size
    assert choices(generate(**members)) == 1


@pytest.mark.parametrize("ids", ['"text"', "5", '{"a": [[1]]}', "[1, [2]]", "[null]", "true"])
def test_ids_that_are_none_are_the_engine_s_to_judge(ids):
    assert batch_size(decode(GenerateRequest, b'{"input_ids": %b}' % ids.encode())) is None


def test_white_space_does_not_hide_a_batch():
    assert batch_size(decode(GenerateRequest, b'{"input_ids": \n[\t[1] , [2]\r\n]}')) == 2


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        (EmbeddingRequest, {"model": "m", "input": ["a", "b"]}),
        (ClassifyRequest, {"model": "m", "input": ["a", "b"]}),
        (RerankRequest, {"query": "q", "documents": ["a", "b"]}),
    ],
)
def test_nothing_else_is_a_batch_of_generations(kind, members):
    request = decode(kind, json.dumps(members).encode())
    assert (batch_size(request), choices(request)) == (None, 1)
