"""`/v1/responses`: OpenAI's Responses API in front of the same model.

A request is read into the chat that says the same, so its answer has the same words. Nothing is stored: an earlier
response cannot be referred to.
"""

from __future__ import annotations

from collections.abc import Sequence as ListOf
from typing import Any, Final, NamedTuple

import msgspec

from smg.sim.dialect import SimError
from smg.sim.forms import Identity
from smg.sim.requests import Call
from smg.sim.scheduler import Sequence
from smg.sim.tool_calls import call_id

_STATUSES: Final = {"stop": "completed", "length": "incomplete", "abort": "failed"}
_ABORTED: Final = {"code": "server_error", "message": "the request was aborted"}


class ResponsesBody(msgspec.Struct, kw_only=True):
    model: str = ""
    input: str | list[dict[str, Any]]
    instructions: str | None = None
    max_output_tokens: int | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None
    text: dict[str, Any] | None = None
    stream: bool | None = False
    temperature: float | None = None
    top_p: float | None = None
    metadata: dict[str, str] | None = None
    previous_response_id: str | None = None
    parallel_tool_calls: bool | None = True
    request_id: str | None = None
    seed: int | None = None
    cache_salt: str | None = None


class Asked(NamedTuple):
    """A request, and the body of the chat that says the same."""

    chat: bytes
    body: ResponsesBody


_DECODER = msgspec.json.Decoder(ResponsesBody)


def read(body: bytes) -> Asked:
    """Read a request. Raises SimError."""
    try:
        asked = _DECODER.decode(body)
    except msgspec.DecodeError as error:
        raise SimError(400, f"the body is not a valid request: {error}") from error
    if asked.previous_response_id:
        message = f"Response with id '{asked.previous_response_id}' not found."
        raise SimError(404, message, "previous_response_id")
    chat: dict[str, Any] = {
        "model": asked.model,
        "stream": bool(asked.stream),
        "messages": _messages(asked),
        "tool_choice": asked.tool_choice,
        "response_format": _format(asked.text),
    }
    given: dict[str, Any] = {
        "max_tokens": asked.max_output_tokens,
        "seed": asked.seed,
        "request_id": asked.request_id,
        "cache_salt": asked.cache_salt,
    }
    if asked.tools:
        given["tools"] = [tool_of(tool) for tool in asked.tools]
    return Asked(msgspec.json.encode(chat | {name: value for name, value in given.items() if value is not None}), asked)


def _messages(asked: ResponsesBody) -> list[dict[str, Any]]:
    head = [{"role": "system", "content": asked.instructions}] if asked.instructions else []
    if isinstance(asked.input, str):
        return [*head, {"role": "user", "content": asked.input}]
    return [*head, *map(message_of, asked.input)]


def message_of(item: dict[str, Any]) -> dict[str, Any]:
    """An item of the input as a message; what is neither said nor called stands as a part."""
    match item.get("type", "message"):
        case "message":
            return {"role": item.get("role", "user"), "content": item.get("content")}
        case "function_call":
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            call = {"id": item.get("call_id"), "type": "function", "function": function}
            return {"role": "assistant", "content": None, "tool_calls": [call]}
        case "function_call_output":
            return {"role": "tool", "content": item.get("output")}
        case _:
            return {"role": "assistant", "content": [item]}


def tool_of(tool: dict[str, Any]) -> dict[str, Any]:
    function = {name: tool[name] for name in ("name", "description", "parameters") if name in tool}
    return {"type": tool.get("type", "function"), "function": function}


def _format(text: dict[str, Any] | None) -> dict[str, Any] | None:
    form = (text or {}).get("format")
    if not isinstance(form, dict):
        return None
    return {"type": form.get("type"), "json_schema": {"schema": form.get("schema")}}


class ResponsesForm:
    """One response; see `forms.Form`. Its events are numbered, and named in their `event` field as well."""

    def __init__(self, asked: ResponsesBody, call: Call, identity: Identity) -> None:
        self._asked = asked
        self._call = call
        self._identity = identity
        suffix = identity.id.rpartition("_")[2]
        self._item_id = f"{'fc' if call.tool else 'msg'}_{suffix}"
        self._call_id = call_id(suffix, 0)
        self._number = -1

    # --- whole

    def whole(self, sequences: ListOf[Sequence], version: str, now: float) -> bytes:  # noqa: ARG002  not in it
        (sequence,) = sequences
        return msgspec.json.encode(self._ended(sequence))

    # --- streamed

    def opening(self, position: int) -> bytes:  # noqa: ARG002  there is one choice
        begun = self._response("in_progress", [], None)
        out = self._event("response.created", {"response": begun}) + self._event(
            "response.in_progress", {"response": begun}
        )
        out += self._event("response.output_item.added", {"output_index": 0, "item": self._item("", "in_progress")})
        if not self._call.tool:
            out += self._event("response.content_part.added", self._place() | {"part": _part("")})
        return out

    def events(self, sequence: Sequence, position: int, version: str) -> bytes:  # noqa: ARG002  not in it
        start = sequence.sent
        sequence.sent = sequence.produced
        pieces = sequence.output.pieces(start, sequence.produced)
        if self._call.tool:
            name, place = "response.function_call_arguments.delta", {"item_id": self._item_id, "output_index": 0}
        else:
            name, place = "response.output_text.delta", self._place() | {"logprobs": []}
        return b"".join([self._event(name, place | {"delta": piece}) for piece in pieces])

    def closing(self, sequence: Sequence, position: int, version: str, now: float) -> bytes:  # noqa: ARG002  not in it
        text, item = sequence.text, self._item(sequence.text, _item_status(sequence))
        if self._call.tool:
            place = {"item_id": self._item_id, "output_index": 0, "name": self._call.tool}
            out = self._event("response.function_call_arguments.done", place | {"arguments": text})
        else:
            out = self._event("response.output_text.done", self._place() | {"text": text, "logprobs": []})
            out += self._event("response.content_part.done", self._place() | {"part": _part(text)})
        return out + self._event("response.output_item.done", {"output_index": 0, "item": item})

    def ending(self, sequences: ListOf[Sequence]) -> bytes:
        (sequence,) = sequences
        ended = self._ended(sequence)
        return self._event(f"response.{ended['status']}", {"response": ended})

    # --- parts

    def _event(self, name: str, members: dict[str, Any]) -> bytes:
        self._number += 1
        data = msgspec.json.encode({"type": name, "sequence_number": self._number, **members})
        return b"event: %b\ndata: %b\n\n" % (name.encode(), data)

    def _place(self) -> dict[str, Any]:
        return {"item_id": self._item_id, "output_index": 0, "content_index": 0}

    def _item(self, text: str, status: str) -> dict[str, Any]:
        row: dict[str, Any] = {"id": self._item_id, "status": status}
        if self._call.tool:
            called = {"call_id": self._call_id, "name": self._call.tool, "arguments": text}
            return row | {"type": "function_call"} | called
        parts = [_part(text)] if text or status != "in_progress" else []
        return row | {"type": "message", "role": "assistant", "content": parts}

    def _ended(self, sequence: Sequence) -> dict[str, Any]:
        status = _STATUSES[sequence.ended or "abort"]
        return self._response(status, [self._item(sequence.text, _item_status(sequence))], _usage(sequence))

    def _response(self, status: str, output: list[Any], usage: dict[str, Any] | None) -> dict[str, Any]:
        asked, identity = self._asked, self._identity
        return {
            "id": identity.id,
            "object": "response",
            "created_at": identity.created,
            "status": status,
            "error": _ABORTED if status == "failed" else None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": asked.instructions,
            "max_output_tokens": asked.max_output_tokens,
            "metadata": asked.metadata or {},
            "model": identity.model,
            "output": output,
            "parallel_tool_calls": asked.parallel_tool_calls is not False,
            "previous_response_id": None,
            "temperature": asked.temperature,
            "text": asked.text or {"format": {"type": "text"}},
            "tool_choice": asked.tool_choice or "auto",
            "tools": asked.tools or [],
            "top_p": asked.top_p,
            "truncation": "disabled",
            "usage": usage,
        }


def _item_status(sequence: Sequence) -> str:
    return "completed" if sequence.ended == "stop" else "incomplete"


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(sequence: Sequence) -> dict[str, Any]:
    read, written = sequence.prompt.tokens, sequence.produced
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": sequence.cached_tokens},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + written,
    }
