"""The messages of a chat: roles, content and content parts.

Read here: what a role requires, what is sent for text, who calls which tool. Everything else of a message
(reasoning, media, unknown members) is skipped by the decoder and reaches the worker in the raw body. Which
roles a model takes, and whether a user may say nothing, are rules (`rules.py`), not shapes.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct

NO_TOOLS = Raw()
"""What a message has that says nothing of tools."""


class Part(Struct, gc=False):
    """A content part, of a known type or not. A malformed one is the worker's to judge."""

    type: Any = None
    text: Any = None


Content = str | list[Part | str]
"""A text, or parts; a bare string among the parts counts as a text part, as some engines take it."""


class ToolCall(Struct, gc=False):
    """A call that an earlier assistant turn made."""

    id: str | None = None


class _Turn(Struct, tag_field="role", gc=False, kw_only=True):
    """One message. Subclasses are the closed set of roles, told apart by `role`. Tools are one family's extension."""

    name: str | None = None
    tools: Raw = NO_TOOLS


class System(_Turn, tag="system"):
    content: Content | None = None


class Developer(_Turn, tag="developer"):
    content: Content


class User(_Turn, tag="user"):
    content: Content


class Assistant(_Turn, tag="assistant"):
    content: Content | None = None
    tool_calls: list[ToolCall] | None = None


class Tool(_Turn, tag="tool"):
    """The answer to one tool call."""

    content: Content
    tool_call_id: str


class Function(_Turn, tag="function"):
    """The answer to a call of the older function interface."""

    content: Content


class Root(_Turn, tag="root"):
    """MiniMax's instruction above the system's."""

    content: Content


Message = User | Assistant | System | Tool | Developer | Function | Root
