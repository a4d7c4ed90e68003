"""MiniMax.

Messages of the role `root` are instructions above the system's: they move, in order, to the front as system messages.
The history of tool calls must be sound: every call has an id of its own and an answer, and every answer a call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from smg.protocol.body import edit
from smg.protocol.messages import Root, System
from smg.protocol.profiles.profile import Draft, Profile, Segments, starts_with

_MARKERS = ("minimax", "abab")


def of(segments: Segments) -> Profile | None:
    """The profile of a model of this vendor."""
    return MINIMAX if starts_with(segments, _MARKERS) else None


def _normalise(draft: Draft) -> None:
    messages = draft.request.messages
    roots = [index for index, message in enumerate(messages) if type(message) is Root]
    if not roots:
        return
    sent = draft.messages
    others = [index for index in range(len(messages)) if index not in set(roots)]
    as_system = [edit(bytes(sent[index]), {"role": b'"system"'}) for index in roots]
    draft.replace_messages([*as_system, *(sent[index] for index in others)])
    draft.request.messages = [
        *(System(name=messages[index].name, content=messages[index].content) for index in roots),
        *(messages[index] for index in others),
    ]


class _Function(Struct):
    arguments: Any = None


class _Call(Struct):
    id: str | None = None
    function: _Function | None = None


class _Turn(Struct):
    """A message, as far as tool calls go."""

    role: str
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None


_turns = msgspec.json.Decoder(list[_Turn])


def _violations(draft: Draft) -> list[str]:
    if draft.body.rfind(b'"tool_call') < 0:
        return []
    try:
        turns = _turns.decode(draft.sent["messages"])
    except msgspec.ValidationError:
        return ["invalid messages: tool_calls must be calls of functions"]
    return list(_wrong_with(turns))


def _wrong_with(turns: list[_Turn]) -> Iterator[str]:
    seen: set[str | None] = set()
    pending: set[str | None] = set()
    for index, turn in enumerate(turns):
        for call in turn.tool_calls or ():
            if call.id in seen:
                yield f"invalid messages[{index}].tool_calls: an id is used more than once in the history"
            seen.add(call.id)
            pending.add(call.id)
            if not _is_object(call.function.arguments if call.function is not None else None):
                yield f"invalid messages[{index}].tool_calls: arguments must be a JSON object, or empty"
        if turn.role == "tool":
            if turn.tool_call_id not in pending:
                yield f"invalid messages[{index}].tool_call_id: it answers no pending tool call"
            pending.discard(turn.tool_call_id)
    if pending:
        yield "invalid messages: a tool call has no tool message that answers it"


def _is_object(arguments: Any) -> bool:
    if arguments is None or isinstance(arguments, dict):
        return True
    if not isinstance(arguments, str):
        return False
    if not arguments.strip():
        return True
    try:
        return isinstance(msgspec.json.decode(arguments), dict)
    except (msgspec.DecodeError, RecursionError):
        return False


MINIMAX = Profile("minimax", _normalise, _violations)
