"""z.ai: the GLM family.

Efforts come from a fixed list, which is shorter for GLM-5.3; that one cannot stop thinking either. `clear_thinking` is
a variable of the chat template. GLM-5, 4.7 and 4.6 have sampling defaults of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from smg.protocol.profiles.profile import Draft, Profile, Segments, forbids_adaptive, spelled, starts_with
from smg.protocol.requests import ABSENT, ChatRequest

_MARKERS = ("glm", "zai", "z-ai")
_GLM_53_MARKERS = ("glm-5.3", "glm5.3", "glm_5.3", "glm-5-3", "glm5-3")
_WITH_DEFAULTS = re.compile(r"glm[-_]?(?:5|4[.-][67])(?!\d)")
_DEFAULTS = spelled({"temperature": 1.0, "top_p": 0.95})
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_EFFORTS_53 = ("low", "high", "max")


def of(segments: Segments) -> Profile | None:
    """The profile of a model of this vendor."""
    if starts_with(segments, _GLM_53_MARKERS):
        return GLM_53
    if any(_WITH_DEFAULTS.match(segment) for segment in segments):
        return GLM_WITH_DEFAULTS
    return GLM if starts_with(segments, _MARKERS) else None


def _normalise(draft: Draft) -> None:
    thinking = draft.request.thinking
    if draft.request.tool_stream is not ABSENT:
        draft.drop("tool_stream")
    if thinking is None or thinking.clear_thinking is None:
        return
    held = draft.nested("chat_template_kwargs").get("clear_thinking")
    if held is None or bytes(held) == b"null":
        draft.set_nested("chat_template_kwargs", "clear_thinking", thinking.clear_thinking)


def _normalise_with_defaults(draft: Draft) -> None:
    _normalise(draft)
    draft.fill(_DEFAULTS)


def _violations(efforts: tuple[str, ...], *, always_thinks: bool) -> Callable[[Draft], list[str]]:
    def violations(draft: Draft) -> list[str]:
        request = draft.request
        broken = [*_efforts(request, efforts), *forbids_adaptive(request), *_tools_and_parts(request)]
        if always_thinks and request.thinking is not None and request.thinking.type == "disabled":
            broken.append("invalid thinking.type: this model cannot stop thinking, disabled is not supported")
        return broken

    return violations


def _efforts(request: ChatRequest, allowed: tuple[str, ...]) -> Iterator[str]:
    """Both spellings, even the one that the other shadows."""
    if request.reasoning_effort is not None and request.reasoning_effort not in allowed:
        yield f"invalid reasoning_effort: must be one of {', '.join(allowed)} for this model"
    thinking = request.thinking
    if thinking is not None and thinking.effort is not None and thinking.effort not in allowed:
        yield f"invalid thinking.effort: must be one of {', '.join(allowed)} for this model"


def _tools_and_parts(request: ChatRequest) -> Iterator[str]:
    if any(tool.type != "function" for tool in request.tools or ()):
        yield "invalid tools: only tools of type function are supported for this model"
    for index, message in enumerate(request.messages):
        content = message.content
        if type(content) is list and any(getattr(part, "type", None) == "file_url" for part in content):
            yield f"invalid messages[{index}].content: file_url parts are not supported, files are not fetched"


_OF_GLM = _violations(_EFFORTS, always_thinks=False)
GLM = Profile("z.ai", _normalise, _OF_GLM)
GLM_WITH_DEFAULTS = Profile("z.ai", _normalise_with_defaults, _OF_GLM)
GLM_53 = Profile("glm-5.3", _normalise_with_defaults, _violations(_EFFORTS_53, always_thinks=True))
