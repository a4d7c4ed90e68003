"""Spellings that the gateway brings into one form, before the rules and the worker see them.

A form that changes for the worker too is returned as an edit of the body, for `body.edit`. The defaults and
rewrites of a vendor are in `profiles/`.
"""

from __future__ import annotations

from decimal import Decimal

import msgspec

from smg.protocol.body import Edits
from smg.protocol.requests import ChatRequest, Request


def normalise(request: Request) -> Edits:
    """Bring `request` into its one form; the edits do the same for its body. Usually there are none.

    Of a chat, a numeric `reasoning_effort` becomes its decimal string. A deprecated `max_tokens` is handed
    on as `max_completion_tokens` when that is unset; the old member stays in the body, because not every
    engine reads the new one (the request's `token_limit` knows both).
    """
    edits: Edits = {}
    if type(request) is not ChatRequest:
        return edits
    effort = request.reasoning_effort
    if effort is not None and type(effort) is not str:
        request.reasoning_effort = decimal(effort)
        edits["reasoning_effort"] = msgspec.json.encode(request.reasoning_effort)
    if request.max_tokens is not None and request.max_completion_tokens is None:
        edits["max_completion_tokens"] = b"%d" % request.max_tokens
    return edits


def decimal(number: float | str) -> str:
    """A number in decimal digits, without an exponent: 50 -> "50", 0.5 -> "0.5", 1e-7 -> "0.0000001"."""
    return format(Decimal(repr(number)), "f")
