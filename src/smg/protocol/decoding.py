"""From the bytes of a body to a request, or to the reason why it is none.

One pass of a compiled decoder, which refuses whatever strict JSON does not allow, with two exceptions in what it skips:
text may be broken UTF-8, and an integer may have any length. A second look closes these gaps, because an engine might
choke on either, or read it differently.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

import msgspec

from smg.protocol.decisions import DecisionsRequest
from smg.protocol.failures import ParseFailure
from smg.protocol.model_member import take_model, tally
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
    Request,
    RerankRequest,
    ResponsesRequest,
)

R = TypeVar("R", bound=Request)

KINDS: tuple[type[Request], ...] = (
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
)

_DECODERS: dict[type[Request], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind, dec_hook=take_model) for kind in KINDS
}

# The longest integer that Python reads from text by default, and with it the JSON readers of most engines.
_MOST_DIGITS = 4300
_SAMPLE_BYTES = 512
_SAMPLED_DIGITS = re.compile(rb"[0-9]{%d}" % (_MOST_DIGITS // _SAMPLE_BYTES))

# The decoder quotes what it did not expect, and that may be as long as the body.
_LONGEST_REASON_CHARS = 300


def decode(kind: type[R], body: bytes) -> R:
    """The request of `kind` that `body` holds.

    Raises:
        ParseFailure: The body is not UTF-8 JSON (RFC 8259), nests too deeply, lacks a member of `kind` or has
            one of a wrong type, or names its model more than once.
    """
    tally.models = 0
    try:
        request: R = _DECODERS[kind].decode(body)
        if not body.isascii():
            body.decode()
        if len(body) > _MOST_DIGITS and _may_hold_long_digits(body):
            json.loads(body, parse_int=_bounded_int)
    except (ValueError, RecursionError) as error:
        raise ParseFailure(_reason(error)) from None
    if tally.models > 1:
        raise ParseFailure("The request is ambiguous: the member `model` is there more than once")
    return request


def _may_hold_long_digits(body: bytes) -> bool:
    """Whether a run of more than `_MOST_DIGITS` digits is possible: such a run shows in every sample taken from it."""
    return _SAMPLED_DIGITS.search(body[::_SAMPLE_BYTES]) is not None


def _bounded_int(digits: str) -> int:
    if len(digits.lstrip("-")) > _MOST_DIGITS:
        raise ValueError(f"An integer has more than {_MOST_DIGITS} digits")
    return 0


def _reason(error: Exception) -> str:
    """What to tell the caller; both decoders' own words already say where."""
    match error:
        case msgspec.ValidationError():
            text = f"The body does not fit this request: {error}"
        case UnicodeDecodeError():
            text = f"The body is not UTF-8 (byte {error.start})"
        case RecursionError():
            text = "The body nests too deeply"
        case _:
            text = f"The body is not valid JSON: {str(error).removeprefix('JSON is malformed: ')}"
    return text if len(text) <= _LONGEST_REASON_CHARS else text[:_LONGEST_REASON_CHARS] + "…"
