"""Kimi (Moonshot AI).

Messages of the system and the developer may declare tools, which then count as the request's. Streams report usage.
K3 fixes its sampling: it has one top_p, three temperatures, no penalties and one choice, and thinks at three levels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from smg.protocol.profiles.profile import (
    Draft,
    Profile,
    Segments,
    forbids_adaptive,
    is_close,
    spelled,
    starts_with,
)
from smg.protocol.requests import ABSENT, ChatRequest, ToolDeclaration

_MARKERS = ("kimi", "moonshot")
_K3_MARKERS = ("kimi-k3", "kimi_k3")
_DECLARING = frozenset({"system", "developer"})
_RESTRICTED = frozenset({"user", "assistant"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_NAME_CHARS = 256

_K3_TEMPERATURES = (0.0, 0.6, 1.0)
_K3_EFFORTS = ("low", "high", "max")
_K3_DEFAULTS = {"temperature": 1.0, "top_p": 0.95, "presence_penalty": 0, "frequency_penalty": 0, "n": 1}
_K3_SPELLED = spelled(_K3_DEFAULTS)


def of(segments: Segments) -> Profile | None:
    """The profile of a model of this vendor."""
    if starts_with(segments, _K3_MARKERS):
        return K3
    return KIMI if starts_with(segments, _MARKERS) else None


# --- tools of messages


class _Declaring(Struct):
    """A message, as far as tools go."""

    role: str
    content: Any = None
    tools: Raw = ABSENT

    @property
    def declares(self) -> bool:
        """Whether it says anything of tools; a null says nothing."""
        return self.tools is not ABSENT and bytes(self.tools) != b"null"


_declarings = msgspec.json.Decoder(list[_Declaring])
_tools = msgspec.json.Decoder(list[ToolDeclaration])


def _messages(draft: Draft) -> list[_Declaring]:
    return _declarings.decode(draft.sent["messages"]) if draft.declares_tools else []


def _declared(message: _Declaring) -> list[ToolDeclaration] | None:
    """The tools that a message declares; None if that is no list of tools."""
    try:
        tools = _tools.decode(message.tools)
    except msgspec.DecodeError:
        return None
    return None if any(tool.type == "function" and tool.function is None for tool in tools) else tools


def _tools_of_messages(messages: list[_Declaring]) -> Iterator[ToolDeclaration]:
    for message in messages:
        if message.role in _DECLARING and message.declares:
            yield from _declared(message) or ()


def _normalise(draft: Draft) -> None:
    request = draft.request
    options = request.stream_options
    if request.stream and options is None:
        draft.set("stream_options", {"include_usage": True})
    elif request.stream and options is not None and options.include_usage is None:
        draft.set_nested("stream_options", "include_usage", True)
    tools = list(_tools_of_messages(_messages(draft)))
    if tools:
        request.tools = [*(request.tools or ()), *tools]


def _violations(draft: Draft) -> list[str]:
    messages = _messages(draft)
    broken = [text for index, message in enumerate(messages) for text in _wrong_with(message, f"messages[{index}]")]
    names = [tool.function.name for tool in draft.request.tools or () if tool.function is not None]
    of_messages = {tool.function.name for tool in _tools_of_messages(messages) if tool.function is not None}
    broken += [
        f"invalid tools: the function '{name}' is declared more than once"
        for name in sorted(of_messages)
        if names.count(name) > 1
    ]
    return broken


def _wrong_with(message: _Declaring, place: str) -> Iterator[str]:
    if not message.declares:
        return
    if message.role in _RESTRICTED:
        yield f"invalid {place}.tools: only system and developer messages may declare tools"
    if message.role not in _DECLARING:
        return
    tools = _declared(message)
    if tools is None:
        yield f"invalid {place}.tools: must be a list of tools"
        return
    if tools and message.content:
        yield f"invalid {place}: a message that declares tools must not have content"
    for tool in tools:
        if tool.type != "function":
            yield f"invalid {place}.tools: only tools of type function are allowed for this model"
        elif tool.function is not None and not _is_name(tool.function.name):
            yield (
                f"invalid {place}.tools: a function's name must match [A-Za-z_][A-Za-z0-9_]* "
                f"and have at most {_LONGEST_NAME_CHARS} characters"
            )


def _is_name(name: str) -> bool:
    return len(name) <= _LONGEST_NAME_CHARS and _NAME.fullmatch(name) is not None


# --- K3


def _normalise_k3(draft: Draft) -> None:
    _normalise(draft)
    draft.fill(_K3_SPELLED)


def _violations_k3(draft: Draft) -> list[str]:
    request = draft.request
    thinking = request.thinking
    broken = [*_violations(draft), *_sampling_k3(request), *forbids_adaptive(request)]
    if thinking is not None and thinking.effort is not None and thinking.effort not in _K3_EFFORTS:
        broken.append(f"invalid thinking.effort: must be one of {', '.join(_K3_EFFORTS)} for this model")
    return broken


def _sampling_k3(request: ChatRequest) -> Iterator[str]:
    temperature, top_p = request.temperature, request.top_p
    if temperature is not None and not any(is_close(temperature, allowed) for allowed in _K3_TEMPERATURES):
        yield "invalid temperature: only 0, 0.6 or 1 is allowed for this model"
    if top_p is not None and not is_close(top_p, _K3_DEFAULTS["top_p"]):
        yield "invalid top_p: only 0.95 is allowed for this model"
    for name in ("presence_penalty", "frequency_penalty"):
        penalty = getattr(request, name)
        if penalty is not None and not is_close(penalty, 0):
            yield f"invalid {name}: only 0 is allowed for this model"
    if request.n is not None and request.n != 1:
        yield "invalid n: only 1 is allowed for this model"


KIMI = Profile("kimi", _normalise, _violations, takes_message_tools=True)
K3 = Profile("kimi-k3", _normalise_k3, _violations_k3, takes_message_tools=True)
