"""The tokens that an answer says it used: OpenAI's `usage`, and SGLang's `meta_info` on its native route.

Plain answers are decoded for these members alone. Of an event stream only its end is looked at, once: the object that
tells stands in one of the last events, and is found there without parsing the events, so that a tail may begin in the
middle of one. Inside a JSON string a quote is escaped, so nothing a model writes can look like such a member.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

TAIL_BYTES: Final = 8192
"""How much of a stream's end is enough: an event that tells its usage is far shorter, or tells it at its end."""


class Usage(NamedTuple):
    """Tokens used; None where the answer does not say."""

    prompt_tokens: int | None
    completion_tokens: int


class _Counts(Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    id: Any = None


class _Answer(Struct, gc=False):
    usage: _Counts | None = None
    meta_info: _Counts | None = None


_answers = msgspec.json.Decoder(_Answer | list[_Answer])
_MEMBER: Final = re.compile(r'"(usage|meta_info)"\s*:\s*(?=\{)')
_objects = json.JSONDecoder()


def usage_of_answer(body: bytes, prompts: int = 1) -> Usage | None:
    """The usage that a plain answer states, or None. `prompts` is how many the request had.

    An answer that is a list has an object for each prompt and sample.
    """
    try:
        answer = _answers.decode(body)
    except (ValueError, RecursionError):
        return None
    if isinstance(answer, _Answer):
        counts = answer.usage or answer.meta_info
        return None if counts is None else _usage(counts)
    return _total([found for part in answer if (found := part.usage or part.meta_info) is not None], prompts)


def usage_of_stream(tail: bytes, prompts: int = 1) -> Usage | None:
    """The usage that an event stream states, given the last `TAIL_BYTES` of it; None if it does not.

    Streams repeat and update it, so the last word counts: of the stream, or on the native route of each sample.
    """
    text = tail.decode(errors="replace")
    latest: dict[object, _Counts] = {}
    for member in _MEMBER.finditer(text):
        counts = _object_at(text, member.end())
        if counts is not None:
            key = str(counts.id) if member[1] == "meta_info" else None
            latest[key] = counts
    if None in latest:
        return _usage(latest[None])
    return _total(latest.values(), prompts)


def _object_at(text: str, start: int) -> _Counts | None:
    try:
        value, _ = _objects.raw_decode(text, start)
        counts = msgspec.convert(value, _Counts)
    except (ValueError, RecursionError):
        return None
    return None if _usage(counts) is None else counts


def _usage(counts: _Counts) -> Usage | None:
    """What one object states."""
    prompt, completion = _prompt(counts), _completion(counts)
    return None if prompt is None and completion is None else Usage(prompt, completion or 0)


def _total(counts: Iterable[_Counts], prompts: int) -> Usage | None:
    """The prompts once and the completions of all samples; a prompt's samples all repeat its length."""
    told = [usage for one in counts if (usage := _usage(one)) is not None]
    if not told:
        return None
    completion = sum(usage.completion_tokens for usage in told)
    lengths = [usage.prompt_tokens for usage in told if usage.prompt_tokens is not None]
    if not lengths:
        return Usage(None, completion)
    prompt = max(lengths) if prompts == 1 else -(-sum(lengths) * min(prompts, len(lengths)) // len(lengths))
    return Usage(prompt, completion)


def _completion(counts: _Counts) -> int | None:
    number = counts.output_tokens if counts.completion_tokens is None else counts.completion_tokens
    return None if number is None else max(0, number)


def _prompt(counts: _Counts) -> int | None:
    number = counts.input_tokens if counts.prompt_tokens is None else counts.prompt_tokens
    if number is None and counts.total_tokens is not None:
        number = counts.total_tokens - (_completion(counts) or 0)
    return None if number is None else max(0, number)
