"""What a request shows of its prompt to policies that place by prefix: text, token ids, cache partition.

Nothing here is computed unless the policy asks. The text is no rendering of the prompt: it need only begin
alike where prompts begin alike.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Raw, Struct

from smg.protocol.decisions import DecisionsRequest, evidence_text
from smg.protocol.messages import Content
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

_texts = msgspec.json.Decoder(str | list[str] | None)


class _Item(Struct, gc=False):
    """A block of content, or a message that has some."""

    text: Any = None
    content: Raw = ABSENT


_contents = msgspec.json.Decoder(str | list[_Item | str] | None)
_token_ids = msgspec.json.Decoder(list[int | list[int]] | None)


def prompt_text(request: Request) -> str:
    """The prompt's text, or "": a chat's message texts in order, a completion's prompts, a text input."""
    return _TEXT_OF[type(request)](request)


def prompt_tokens(request: Request) -> list[int] | None:
    """The prompt's token ids if the request brings them; they win over its text. Of a batch, the first's."""
    if type(request) is not GenerateRequest or request.input_ids is ABSENT:
        return None
    try:
        batch: Any = _token_ids.decode(request.input_ids)
    except msgspec.DecodeError:
        return None  # the engine refuses it; it need not be placed well
    first = batch[0] if batch and type(batch[0]) is list else batch
    return first if first and all(type(token) is int for token in first) else None


def cache_partition(request: Request) -> str:
    """What separates prompts that must not share cached prefixes, or "": a hash of salt, extra key, adapter.

    Equal values in the same spelling share a partition; empty values count as unset.
    """
    lora_path = getattr(request, "lora_path", None)
    if (
        request.cache_salt is ABSENT
        and request.extra_key is ABSENT
        and request.lora_id is ABSENT
        and (lora_path is None or lora_path is ABSENT)
    ):
        return ""
    path = lora_path if type(lora_path) is Raw else msgspec.json.encode(lora_path)
    values = [_spelling(raw) for raw in (request.cache_salt, request.extra_key, request.lora_id, path)]
    if not any(values):
        return ""
    digest = blake2b(digest_size=16)
    for value in values:
        digest.update(b"%d:" % len(value))
        digest.update(value)
    return digest.hexdigest()


_EMPTY = frozenset({b"null", b'""', b"[]"})


def _spelling(raw: Raw | bytes) -> bytes:
    text = bytes(raw)
    return b"" if text in _EMPTY else text


def _joined(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else "\n".join(texts)


def _chat_text(request: ChatRequest) -> str:
    texts: list[str] = []
    for message in request.messages:
        content = message.content
        if type(content) is str:
            texts.append(content)
        elif content:
            texts += _part_texts(content)
    return _joined(texts)


def _part_texts(content: Content) -> list[str]:
    texts: list[str] = []
    for part in content:
        if type(part) is str:
            texts.append(part)
        elif part.type == "text" and type(part.text) is str:  # type: ignore[union-attr]  # str is gone above
            texts.append(part.text)  # type: ignore[union-attr]  # the same
    return texts


def _text_or_list(texts: str | list[str] | None) -> str:
    return texts if type(texts) is str else _joined(texts or [])  # type: ignore[arg-type]  # str is gone


def _input_text(request: EmbeddingRequest | ClassifyRequest) -> str:
    try:
        return _text_or_list(_texts.decode(request.input))
    except msgspec.DecodeError:
        return ""


def _responses_text(request: ResponsesRequest) -> str:
    texts = [] if request.instructions is None else [request.instructions]
    return _joined(texts + _spoken(request.input))


def _messages_text(request: CountTokensRequest) -> str:
    texts = _spoken(request.system)
    for message in request.messages:
        texts += _spoken(message.content)
    return _joined(texts)


def _spoken(raw: Raw) -> list[str]:
    """The texts of a content in the newer APIs: a text, or a list of blocks, or of messages with such contents."""
    if raw is ABSENT:
        return []
    try:
        content = _contents.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return []
    if type(content) is str:
        return [content]
    texts: list[str] = []
    for item in content or ():
        if type(item) is str:
            texts.append(item)
        elif type(item.text) is str:
            texts.append(item.text)
        elif item.content is not ABSENT:
            texts += _spoken(item.content)
    return texts


_TEXT_OF: dict[type[Request], Callable[[Any], str]] = {
    ChatRequest: _chat_text,
    CompletionRequest: lambda request: _text_or_list(request.prompt),
    GenerateRequest: lambda request: _text_or_list(request.text),
    EmbeddingRequest: _input_text,
    ClassifyRequest: _input_text,
    RerankRequest: lambda request: request.query,
    ResponsesRequest: _responses_text,
    CountTokensRequest: _messages_text,
    MessagesRequest: _messages_text,
    InteractionRequest: lambda request: _joined(_spoken(request.input)),
    DecisionsRequest: evidence_text,
}
