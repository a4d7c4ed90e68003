import json

import pytest

from smg.protocol.decoding import decode
from smg.protocol.prompt_cost import PromptCost, prompt_cost
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


def cost(kind, **members):
    return prompt_cost(decode(kind, json.dumps({"model": "m", **members}).encode()))


def test_four_characters_are_about_a_token_and_there_is_at_least_one():
    def of(content):
        return cost(ChatRequest, messages=[{"role": "user", "content": content}]).tokens

    assert [of("a" * n) for n in (1, 4, 5, 400)] == [1, 1, 2, 100]


def test_a_chat_is_one_prompt_of_all_its_texts():
    messages = [
        {"role": "system", "content": "s" * 40},
        {"role": "user", "content": [{"type": "text", "text": "u" * 36}, {"type": "image_url", "image_url": {}}]},
    ]
    assert cost(ChatRequest, messages=messages) == PromptCost(20)


@pytest.mark.parametrize(
    ("kind", "members", "expected"),
    [
        (CompletionRequest, {"prompt": "a" * 8}, PromptCost(2)),
        (CompletionRequest, {"prompt": ["a" * 8, "b" * 4]}, PromptCost(3, 2)),
        (CompletionRequest, {"prompt": []}, PromptCost(1)),
        (GenerateRequest, {"text": "a" * 8}, PromptCost(2)),
        (GenerateRequest, {"text": ["a" * 8, "b" * 4]}, PromptCost(3, 2)),
        (GenerateRequest, {"input_ids": [5, 6, 7]}, PromptCost(3)),
        (GenerateRequest, {"input_ids": [[5, 6, 7], [8]], "text": "ignored"}, PromptCost(4, 2)),
        (GenerateRequest, {"input_ids": None, "text": "a" * 8}, PromptCost(2)),
        (GenerateRequest, {"input_ids": {"no": "ids"}}, PromptCost(1)),
        (GenerateRequest, {}, PromptCost(1)),
        (EmbeddingRequest, {"input": "a" * 8}, PromptCost(2)),
        (EmbeddingRequest, {"input": ["a" * 8, "b" * 4]}, PromptCost(3, 2)),
        (EmbeddingRequest, {"input": [5, 6, 7]}, PromptCost(3)),
        (EmbeddingRequest, {"input": [[5, 6], [7]]}, PromptCost(3, 2)),
        (EmbeddingRequest, {"input": []}, PromptCost(1)),
        (ClassifyRequest, {"input": ["a" * 8]}, PromptCost(2)),
        (RerankRequest, {"query": "q" * 4, "documents": ["d" * 12, {"text": "e" * 4}, {"id": 1}]}, PromptCost(7, 3)),
        (RerankRequest, {"query": "q" * 4, "documents": []}, PromptCost(1)),
        (ResponsesRequest, {"input": "a" * 8}, PromptCost(2)),
        (InteractionRequest, {"input": [{"type": "text", "text": "a" * 8}]}, PromptCost(2)),
        (MessagesRequest, {"max_tokens": 1, "messages": [{"role": "user", "content": "a" * 8}]}, PromptCost(2)),
        (CountTokensRequest, {"system": "s" * 4, "messages": []}, PromptCost(1)),
    ],
)
def test_what_other_prompts_cost(kind, members, expected):
    assert cost(kind, **members) == expected
