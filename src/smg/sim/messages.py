"""`/v1/messages` and `/v1/messages/count_tokens`: Anthropic's Messages API in front of the same model.

A request is read into the chat that says the same, so its answer has the same words. Errors have Anthropic's shape on
these routes, whatever the engine's own is.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as ListOf
from typing import Any, Final, NamedTuple

import msgspec

from smg.sim.dialect import SimError
from smg.sim.forms import Identity
from smg.sim.requests import Call
from smg.sim.scheduler import Sequence

MESSAGES: Final = "messages"
COUNT: Final = "count_tokens"

_ERROR_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    529: "overloaded_error",
}
_CHOICES: Final = {"any": "required", "auto": "auto", "none": "none"}


class MessagesBody(msgspec.Struct, kw_only=True):
    model: str
    messages: list[dict[str, Any]]
    max_tokens: int | None = None
    system: str | list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: dict[str, Any] | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = False
    request_id: str | None = None
    cache_salt: str | None = None


class Asked(NamedTuple):
    """A request, and the body of the chat that says the same."""

    chat: bytes
    body: MessagesBody


_DECODER = msgspec.json.Decoder(MessagesBody)


def error_body(error: SimError) -> bytes:
    """An error as these routes tell it."""
    kind = _ERROR_TYPES.get(error.status, "api_error")
    return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": error.message}})


def read(body: bytes, *, counting: bool = False) -> Asked:
    """Read a request; one that only counts needs no limit. Raises SimError 400."""
    try:
        asked = _DECODER.decode(body)
    except msgspec.DecodeError as error:
        raise SimError(400, f"the body is not a valid request: {error}") from error
    if asked.max_tokens is None and not counting:
        raise SimError(400, "max_tokens: Field required", "max_tokens")
    head = [{"role": "system", "content": asked.system}] if asked.system else []
    chat: dict[str, Any] = {
        "model": asked.model,
        "stream": bool(asked.stream),
        "messages": [*head, *_messages(asked.messages)],
        "stop": asked.stop_sequences,
        "tool_choice": _choice(asked.tool_choice),
    }
    given: dict[str, Any] = {
        "max_tokens": asked.max_tokens,
        "request_id": asked.request_id,
        "cache_salt": asked.cache_salt,
    }
    if asked.tools:
        given["tools"] = [_tool(tool) for tool in asked.tools]
    return Asked(msgspec.json.encode(chat | {name: value for name, value in given.items() if value is not None}), asked)


def _messages(messages: ListOf[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The turns of a chat: what a tool said is a turn of its own."""
    for message in messages:
        content = message.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        said: list[Any] = []
        for block in blocks:
            if isinstance(block, dict) and block.get("type") == "tool_result":
                yield {"role": "tool", "content": block.get("content")}
            else:
                said.append(block)
        if said:
            yield {"role": message.get("role", "user"), "content": said}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = {"name": tool.get("name"), "parameters": tool.get("input_schema") or {}}
    return {"type": "function", "function": function | {"description": tool.get("description", "")}}


def _choice(choice: dict[str, Any] | None) -> Any:
    if not choice:
        return None
    if choice.get("type") == "tool":
        return {"type": "function", "function": {"name": choice.get("name")}}
    return _CHOICES.get(str(choice.get("type")))


class MessageForm:
    """One message; see `forms.Form`."""

    def __init__(self, call: Call, identity: Identity) -> None:
        self._call = call
        self._identity = identity
        self._tool_id = f"toolu_{identity.id.rpartition('_')[2]}"

    # --- whole

    def whole(self, sequences: ListOf[Sequence], version: str, now: float) -> bytes:  # noqa: ARG002  not in it
        (sequence,) = sequences
        if sequence.ended == "abort":
            raise SimError(503, "the request was aborted")
        reason, matched = self._stop(sequence)
        message = self._message([self._block(sequence.text)], _usage(sequence, sequence.produced))
        return msgspec.json.encode(message | {"stop_reason": reason, "stop_sequence": matched})

    # --- streamed

    def begin(self, sequence: Sequence) -> bytes:
        """The beginning of the stream, which tells how much was read."""
        block = self._block("") | ({"input": {}} if self._call.tool else {})
        return _event("message_start", {"message": self._message([], _usage(sequence, 0))}) + _event(
            "content_block_start", {"index": 0, "content_block": block}
        )

    def opening(self, position: int) -> bytes:  # noqa: ARG002  `begin` needs the sequence
        return b""

    def events(self, sequence: Sequence, position: int, version: str) -> bytes:  # noqa: ARG002  not in it
        start = sequence.sent
        out = b"" if start else self.begin(sequence)
        sequence.sent = sequence.produced
        kind, name = ("input_json_delta", "partial_json") if self._call.tool else ("text_delta", "text")
        for piece in sequence.output.pieces(start, sequence.produced):
            out += _event("content_block_delta", {"index": 0, "delta": {"type": kind, name: piece}})
        return out

    def closing(self, sequence: Sequence, position: int, version: str, now: float) -> bytes:  # noqa: ARG002  not in it
        if sequence.ended == "abort":
            return b"event: error\ndata: %b\n\n" % error_body(SimError(503, "the request was aborted"))
        reason, matched = self._stop(sequence)
        delta = {"stop_reason": reason, "stop_sequence": matched}
        return (
            _event("content_block_stop", {"index": 0})
            + _event("message_delta", {"delta": delta, "usage": {"output_tokens": sequence.produced}})
            + _event("message_stop", {})
        )

    def ending(self, sequences: ListOf[Sequence]) -> bytes:  # noqa: ARG002  `message_stop` has been said
        return b""

    # --- parts

    def _message(self, content: list[Any], usage: dict[str, int]) -> dict[str, Any]:
        return {
            "id": self._identity.id,
            "type": "message",
            "role": "assistant",
            "model": self._identity.model,
            "content": content,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }

    def _block(self, text: str) -> dict[str, Any]:
        if not self._call.tool:
            return {"type": "text", "text": text}
        return {"type": "tool_use", "id": self._tool_id, "name": self._call.tool, "input": _object(text)}

    def _stop(self, sequence: Sequence) -> tuple[str, str | None]:
        """Why it ended, and the stop string that ended it."""
        if sequence.ended == "length":
            return "max_tokens", None
        if self._call.tool:
            return "tool_use", None
        matched = sequence.output.matched
        return ("stop_sequence" if matched is not None else "end_turn"), matched


def _event(name: str, members: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode({"type": name, **members}))


def _object(text: str) -> Any:
    """The arguments as an object; those that were cut off are none."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}


def _usage(sequence: Sequence, written: int) -> dict[str, int]:
    """What was read does not count what was found in the cache, which stands beside it."""
    cached = sequence.cached_tokens
    return {
        "input_tokens": sequence.prompt.tokens - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": written,
    }
