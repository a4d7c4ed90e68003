"""How many generations one request asks for: what a prefill/decode pair must agree on, one rendezvous each."""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw

from smg.protocol.requests import ChatRequest, CompletionRequest, GenerateRequest, Request

# Looked at before anything is decoded: a single list of ids can be very long.
_LISTS = re.compile(rb"\s*\[\s*\[")
_rows = msgspec.json.Decoder(list[Raw])


def choices(request: Request) -> int:
    """How many completions of each prompt are asked for."""
    return getattr(request, "n", None) or 1


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
        return len(request.text) if type(request.text) is list else _id_lists(request.input_ids)
    return None


def _id_lists(ids: Raw) -> int | None:
    """The number of lists of token ids, if it is lists; what else it may be is the engine's to judge."""
    return len(_rows.decode(ids)) if _LISTS.match(ids) else None
