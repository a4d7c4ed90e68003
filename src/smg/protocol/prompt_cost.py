"""What a request's prompt will about cost, in tokens, before anybody has tokenized it.

Token ids that the request brings are counted; text counts a token for every four characters, which is what the
tokenizers of large models make of English. It is an estimate: what was really used, the answer says (`usage.py`).
Images, audio, tools and the template's own text are not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw

from smg.protocol.decisions import DecisionsRequest, question_texts
from smg.protocol.prompts import prompt_text
from smg.protocol.requests import (
    ABSENT,
    ChatRequest,
    ClassifyRequest,
    CompletionRequest,
    CountTokensRequest,
    EmbeddingRequest,
    GenerateRequest,
    InteractionRequest,
    MessagesRequest,
    Request,
    RerankRequest,
    ResponsesRequest,
)

CHARS_PER_TOKEN: Final = 4

_input = msgspec.json.Decoder(str | list[str | int | list[int]] | None)


class PromptCost(NamedTuple):
    """The tokens of all prompts of a request, at least one, and how many prompts there are."""

    tokens: int
    prompts: int = 1


def prompt_cost(request: Request) -> PromptCost:
    """The cost of a request's prompt, estimated where its token ids are not known."""
    return _COST_OF[type(request)](request)


def text_cost(text: str) -> PromptCost:
    """The cost of a prompt that is this text, and whatever else that cannot be counted."""
    return _of_texts([text])


def _of_texts(texts: Iterable[str]) -> PromptCost:
    chars = [len(text) for text in texts]
    return PromptCost(max(1, -(-sum(chars) // CHARS_PER_TOKEN)), max(1, len(chars)))


def _of_batch(texts: str | list[str] | None) -> PromptCost:
    return _of_texts([texts] if isinstance(texts, str) else texts or [])


def _of_input(raw: Raw) -> PromptCost:
    """The cost of a text, several, token ids, or several lists of them."""
    try:
        value = _input.decode(raw)
    except (ValueError, RecursionError):
        return PromptCost(1)  # the engine refuses it
    if isinstance(value, str) or not value:
        return _of_texts([value or ""])
    if isinstance(value[0], int):
        return PromptCost(len(value))
    texts = [item for item in value if isinstance(item, str)]
    ids = sum(len(item) for item in value if isinstance(item, list))
    return PromptCost(ids + (_of_texts(texts).tokens if texts else 0) or 1, len(value))


def _of_generate(request: GenerateRequest) -> PromptCost:
    if request.input_ids is ABSENT or bytes(request.input_ids) == b"null":
        return _of_batch(request.text)
    return _of_input(request.input_ids)


def _of_rerank(request: RerankRequest) -> PromptCost:
    """Every document is read together with the query."""
    documents = [text if isinstance(text, str) else str(text.get("text", "")) for text in request.documents]
    return _of_texts([request.query + text for text in documents] or [request.query])


def _of_decisions(request: DecisionsRequest) -> PromptCost:
    """The evidence once, and what is asked about it."""
    return PromptCost(_of_texts([prompt_text(request), *question_texts(request)]).tokens)


def _of_prompt(request: Request) -> PromptCost:
    return _of_texts([prompt_text(request)])


_COST_OF: dict[type[Request], Callable[[Any], PromptCost]] = {
    ChatRequest: _of_prompt,
    ResponsesRequest: _of_prompt,
    CountTokensRequest: _of_prompt,
    MessagesRequest: _of_prompt,
    InteractionRequest: _of_prompt,
    CompletionRequest: lambda request: _of_batch(request.prompt),
    GenerateRequest: _of_generate,
    EmbeddingRequest: lambda request: _of_input(request.input),
    ClassifyRequest: lambda request: _of_input(request.input),
    RerankRequest: _of_rerank,
    DecisionsRequest: _of_decisions,
}
