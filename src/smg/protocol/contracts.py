"""A request brought into its one form and judged: by the rules of its route, and by the contract of its model's family.

Normalising comes first, so that the rules see what the worker will see.
"""

from __future__ import annotations

from msgspec import Raw

from smg.protocol.body import REMOVED, Edits, edit, members
from smg.protocol.messages import NO_TOOLS
from smg.protocol.normalising import normalise
from smg.protocol.profiles import profile_of
from smg.protocol.profiles.baseline import BASELINE
from smg.protocol.profiles.profile import Draft
from smg.protocol.requests import ChatRequest, Request
from smg.protocol.rules import violations

_FOREIGN = "tools"
_NULL = b"null"


def settle(request: Request, body: bytes) -> tuple[Edits, list[str], bool]:
    """Bring `request`, which was read from `body`, into its one form, and judge it.

    Returns the edits for the body, the rules that the request breaks, and whether members of messages were taken out
    which mean something to another family only.
    """
    edits = normalise(request)
    if type(request) is not ChatRequest:
        return edits, violations(request), False
    profile = profile_of(request.model)
    declared = _messages_declare_tools(request)
    if profile is BASELINE and not declared:
        return edits, violations(request), False
    draft = Draft(request, body, edits, declared)
    foreign = declared and not profile.takes_message_tools and _drop_message_tools(draft)
    profile.normalise(draft)
    broken = [*violations(request), *(f"__all__: {text}" for text in profile.violations(draft))]
    return edits, broken, foreign


def _messages_declare_tools(request: ChatRequest) -> bool:
    """Whether a message has the member; it may be a null."""
    for message in request.messages:  # noqa: SIM110  a generator would cost more than the loop
        if message.tools is not NO_TOOLS:
            return True
    return False


def _drop_message_tools(draft: Draft) -> bool:
    """Take the tools of messages out; whether there were any."""
    sent = draft.messages
    kept = [_without_tools(message) for message in sent]
    if kept == sent:
        return False
    draft.replace_messages(kept)
    return True


def _without_tools(message: Raw) -> Raw | bytes:
    tools = members(message).get(_FOREIGN)
    if tools is None or bytes(tools) == _NULL:
        return message
    return edit(bytes(message), {_FOREIGN: REMOVED})
