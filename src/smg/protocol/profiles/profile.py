"""What a profile is, and the chat it works on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Raw

from smg.protocol.body import REMOVED, Edits, edit, members
from smg.protocol.requests import ChatRequest

Segments = tuple[str, ...]
"""A model's name between its slashes, in lower case."""

_NULL = b"null"
_raws = msgspec.json.Decoder(list[Raw])


@dataclass
class Draft:
    """A chat on its way to the worker: as it was read, the body it was read from, and the edits made to that so far.

    `declares_tools` says that messages have tools, which may be nulls. Whoever changes what the rules or placement look
    at changes the request as well.
    """

    request: ChatRequest
    body: bytes
    edits: Edits
    declares_tools: bool

    @cached_property
    def sent(self) -> Mapping[str, Raw]:
        """The members of the body, as the client sent them."""
        return members(self.body)

    @property
    def messages(self) -> list[Raw]:
        """The messages as they stand, as slices of the body."""
        return _raws.decode(self._text("messages"))

    def replace_messages(self, messages: Iterable[bytes | Raw]) -> None:
        """Put other messages in the place of those."""
        self.edits["messages"] = b"[%b]" % b",".join(map(bytes, messages))

    def nested(self, name: str) -> Mapping[str, Raw]:
        """The members of an object in the body as it stands; none if it is not there, or null."""
        text = self._text(name)
        return {} if text == _NULL else members(text)

    def set(self, name: str, value: Any) -> None:
        """Give a member a value, whether it was there or not."""
        self.edits[name] = msgspec.json.encode(value)

    def fill(self, defaults: Mapping[str, bytes]) -> None:
        """Give the members that are not set these values, which are `spelled`."""
        request, edits = self.request, self.edits
        for name, text in defaults.items():
            if getattr(request, name) is None:
                edits[name] = text

    def set_nested(self, name: str, inner: str, value: Any) -> None:
        """Give a member of an object in the body a value; the object is made if it is not there."""
        held = self._text(name)
        if held == _NULL:
            self.edits[name] = msgspec.json.encode({inner: value})
        else:
            self.edits[name] = edit(held, {inner: msgspec.json.encode(value)})

    def drop(self, name: str) -> None:
        """Take a member out of the body."""
        self.edits[name] = REMOVED

    def _text(self, name: str) -> bytes:
        """A member as it stands. `name` is one that the request has too, which is cheaper to ask."""
        text = self.edits.get(name)
        if text is None:
            text = _NULL if getattr(self.request, name) is None else self.sent[name]
        return _NULL if text is REMOVED else bytes(text)


@dataclass(frozen=True, slots=True)
class Profile:
    """One contract. `normalise` changes a draft, `violations` says what is wrong with it afterwards, a sentence each.

    `takes_message_tools` says that messages may declare tools; of every other family they are a foreign extension.
    """

    name: str
    normalise: Callable[[Draft], None]
    violations: Callable[[Draft], list[str]]
    takes_message_tools: bool = False


def spelled(values: Mapping[str, Any]) -> dict[str, bytes]:
    """Values as JSON, which constants need be made into only once."""
    return {name: msgspec.json.encode(value) for name, value in values.items()}


def starts_with(segments: Segments, markers: tuple[str, ...]) -> bool:
    """Whether a segment begins with one of the markers."""
    return any(segment.startswith(markers) for segment in segments)


def is_close(value: float, to: float) -> bool:
    """Whether two sampling numbers are the same, whatever precision they came through."""
    return abs(value - to) <= 1e-6  # noqa: PLR2004  beyond what single precision keeps of small numbers


def forbids_adaptive(request: ChatRequest) -> list[str]:
    """The rule of families that have no middle between thinking and not thinking."""
    if request.thinking is None or request.thinking.type != "adaptive":
        return []
    return ["invalid thinking.type: only enabled or disabled is allowed for this model"]
