"""The log probabilities of a prompt's tokens, which in a split SGLang only the prefill engine has worked out.

A plain answer of `/generate` that was asked for them gets them back: they are put in front of those in decode's answer.
Both answers are taken apart and put together as they are spelled; an answer that does not look as expected stays as it
is.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from smg.protocol.body import edit, members

ASKED = "return_logprob"
_INFO = "meta_info"
_PROMPT = "input_token_logprobs"

_rows = msgspec.json.Decoder(list[Raw])
_wanted = msgspec.json.Decoder(bool | list[bool] | None)


def asks_for_logprobs(body: bytes) -> bool:
    """Whether a `/generate` body asks for log probabilities, for all of a batch or for some of it."""
    try:
        asked = members(body).get(ASKED)
        wanted = None if asked is None else _wanted.decode(asked)
    except ValueError:
        return False
    return wanted is True or (isinstance(wanted, list) and True in wanted)


def with_prompt_logprobs(answer: bytes, filled: bytes) -> bytes:
    """Decode's answer with what prefill's answer, `filled`, says of the prompt."""
    try:
        if not answer.lstrip().startswith(b"["):
            return _merged(answer, filled)
        pairs = zip(_rows.decode(answer), _rows.decode(filled), strict=True)
        return b"[%b]" % b",".join([_merged(bytes(row), bytes(before)) for row, before in pairs])
    except ValueError:  # not JSON, not an object, or batches of different sizes
        return answer


def _merged(answer: bytes, filled: bytes) -> bytes:
    """One item; without anything to add it stays as it is."""
    info = members(answer).get(_INFO)
    known = members(filled).get(_INFO)
    if info is None or known is None:
        return answer
    before = _entries(members(known).get(_PROMPT))
    if not before:
        return answer
    entries = [*before, *_entries(members(info).get(_PROMPT))]
    joined = b"[%b]" % b",".join([bytes(entry) for entry in entries])
    return edit(answer, {_INFO: edit(bytes(info), {_PROMPT: joined})})


def _entries(value: Raw | None) -> list[Raw]:
    return [] if value is None or bytes(value) == b"null" else _rows.decode(value)
