"""DeepSeek V4 and V4.1.

They think unless they are told not to, in one of several ways; what comes of these is written to the variable of the
chat template that the models read. Efforts they do not know become the next that they know; V4.1 takes a budget of 1 to
100 as well. While they think, no tool can be forced on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from smg.protocol.profiles.profile import Draft, Profile, Segments, forbids_adaptive
from smg.protocol.requests import AllowedChoice, ChatRequest, NamedChoice

_V4 = frozenset({"deepseek-flash", "deepseek-v4-flash", "deepseek-v4-pro"})
_V41 = frozenset({"deepseek-v4.1-flash"})
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_MAPPED_V41 = {"minimal": "low", "medium": "high"}
_MAPPED_V4 = {**_MAPPED_V41, "xhigh": "high"}
_MAX_BUDGET = 100
_MOST_DIGITS = 9
_TOGGLES = ("thinking", "enable_thinking")
_NULL = b"null"


def of(segments: Segments) -> Profile | None:
    """The profile of a model of this family; older ones have the baseline."""
    if not _V41.isdisjoint(segments):
        return V41
    return V4 if not _V4.isdisjoint(segments) else None


def _normalise(mapped: Mapping[str, str]) -> Callable[[Draft], None]:
    def normalise(draft: Draft) -> None:
        request = draft.request
        variables = _variables(draft)
        if variables.get("thinking") is None:
            draft.set_nested("chat_template_kwargs", "thinking", _thinks(request, variables))
        effort = mapped.get(str(request.reasoning_effort))
        if effort is not None:
            request.reasoning_effort = effort
            draft.set("reasoning_effort", effort)
        thinking = request.thinking
        effort = mapped.get(thinking.effort or "") if thinking is not None else None
        if thinking is not None and effort is not None:
            thinking.effort = effort
            draft.set_nested("thinking", "effort", effort)

    return normalise


def _variables(draft: Draft) -> dict[str, Any]:
    """The variables of the chat template that say whether to think, those that are set."""
    sent = draft.nested("chat_template_kwargs")
    if not sent:
        return {}
    names = (*_TOGGLES, "reasoning_effort")
    return {name: msgspec.json.decode(sent[name]) for name in names if name in sent and bytes(sent[name]) != _NULL}


def _thinks(request: ChatRequest, variables: Mapping[str, Any]) -> bool:
    """The first of these has the say: a variable of the template, the toggle, the effort. Without any, it thinks."""
    toggles = [variables[name] for name in _TOGGLES if isinstance(variables.get(name), bool)]
    if toggles:
        return bool(toggles[0])
    if "reasoning_effort" in variables:
        return bool(variables["reasoning_effort"] != "none")
    thinking = request.thinking
    if thinking is not None and thinking.type is not None:
        return thinking.type != "disabled"
    effort = thinking.effort if thinking is not None and thinking.effort is not None else request.reasoning_effort
    return effort != "none"


def _violations(*, takes_budgets: bool) -> Callable[[Draft], list[str]]:
    def violations(draft: Draft) -> list[str]:
        request = draft.request
        variables = _variables(draft)
        broken = [*_efforts(request, takes_budgets=takes_budgets), *forbids_adaptive(request), *_overrides(variables)]
        if _is_forced(request.tool_choice) and _thinks(request, variables):
            broken.append("invalid tool_choice: a tool cannot be forced while this model thinks")
        return broken

    return violations


def _efforts(request: ChatRequest, *, takes_budgets: bool) -> Iterator[str]:
    """Both spellings, even the one that the other shadows."""
    allowed = f"must be one of {', '.join(_EFFORTS)}" + (f", or an integer from 1 to {_MAX_BUDGET}" * takes_budgets)
    if request.reasoning_effort is not None and not _is_effort(str(request.reasoning_effort), takes_budgets):
        yield f"invalid reasoning_effort: {allowed} for this model"
    thinking = request.thinking
    if thinking is not None and thinking.effort is not None and not _is_effort(thinking.effort, takes_budgets):
        yield f"invalid thinking.effort: {allowed} for this model"


def _is_effort(text: str, takes_budgets: bool) -> bool:  # noqa: FBT001  the one other thing that decides
    if text in _EFFORTS:
        return True
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return takes_budgets and is_number and 1 <= int(text) <= _MAX_BUDGET


def _overrides(variables: Mapping[str, Any]) -> Iterator[str]:
    toggles = {name: variables[name] for name in _TOGGLES if name in variables}
    for name, value in toggles.items():
        if not isinstance(value, bool):
            yield f"invalid chat_template_kwargs.{name}: must be a boolean or null"
    if len(set(map(repr, toggles.values()))) > 1:
        yield "invalid chat_template_kwargs: thinking and enable_thinking disagree"


def _is_forced(choice: object) -> bool:
    if isinstance(choice, AllowedChoice):
        return choice.mode == "required"
    return choice == "required" or isinstance(choice, NamedChoice)


V4 = Profile("deepseek-v4", _normalise(_MAPPED_V4), _violations(takes_budgets=False))
V41 = Profile("deepseek-v4.1", _normalise(_MAPPED_V41), _violations(takes_budgets=True))
