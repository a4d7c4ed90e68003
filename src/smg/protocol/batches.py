"""How many generations one request asks for: what a prefill/decode pair must agree on, one rendezvous each."""

from __future__ import annotations

from typing import Any

import msgspec

from smg.protocol.requests import ABSENT, ChatRequest, CompletionRequest, GenerateRequest, Request


def choices(request: Request) -> int:
    """How many completions of each prompt are asked for."""
    return getattr(request, "n", None) or 1


_ids = msgspec.json.Decoder(list[Any] | None)


def batch_size(request: Request) -> int | None:
    """The number of items in a batch; None for a request that is none.

    A chat with `n` above 1 counts its choices, a completion its prompts if they are a list, SGLang's native route its
    texts or its lists of token ids. Several choices of a single completion prompt share what they have.
    """
    if type(request) is ChatRequest:
        return request.n if request.n is not None and request.n > 1 else None
    if type(request) is CompletionRequest:
        return len(request.prompt) if type(request.prompt) is list else None
    if type(request) is GenerateRequest:
        if type(request.text) is list:
            return len(request.text)
        if request.input_ids is not ABSENT:
            ids = _ids.decode(request.input_ids)
            return len(ids) if ids and type(ids[0]) is list else None
    return None
