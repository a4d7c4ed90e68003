"""The events of a response in a realtime session; each is JSON, and a blank line ends it."""

from __future__ import annotations

from collections.abc import Sequence as ListOf
from typing import Any, Final

import msgspec

from smg.sim.conversation import Conversation, Event
from smg.sim.requests import Call
from smg.sim.scheduler import Sequence

_STATUSES: Final = {"stop": "completed", "length": "incomplete", "abort": "failed"}
_DETAILS: Final = {
    "completed": {"type": "completed"},
    "incomplete": {"type": "incomplete", "reason": "max_output_tokens"},
    "failed": {"type": "failed", "error": {"type": "server_error", "code": None, "message": "it was aborted"}},
    "cancelled": {"type": "cancelled", "reason": "client_cancelled"},
}


class RealtimeForm:
    """One response; see `forms.Form`. `begun` says that it has been announced."""

    def __init__(self, conversation: Conversation, call: Call, id_: str) -> None:
        self._conversation = conversation
        self._call = call
        self._id = id_
        suffix = conversation.number()
        self._item_id = f"item_{suffix}"
        self._call_id = f"call_{suffix}"
        self._sequence: Sequence | None = None

    def whole(self, sequences: ListOf[Sequence], version: str, now: float) -> bytes:
        raise NotImplementedError

    def opening(self, position: int) -> bytes:  # noqa: ARG002  there is one choice
        item = self._item("", "in_progress")
        out = self._event("response.created", response=self._response("in_progress", []))
        out += self._event("response.output_item.added", output_index=0, item=item, response_id=self._id)
        if not self._call.tool:
            out += self._event("response.content_part.added", **self._place(), part={"type": "text", "text": ""})
        return out

    def events(self, sequence: Sequence, position: int, version: str) -> bytes:  # noqa: ARG002  not in it
        self._sequence = sequence
        start = sequence.sent
        sequence.sent = sequence.produced
        pieces = sequence.output.pieces(start, sequence.produced)
        name = "response.function_call_arguments.delta" if self._call.tool else "response.output_text.delta"
        return b"".join([self._event(name, **self._place(), delta=piece) for piece in pieces])

    def closing(self, sequence: Sequence, position: int, version: str, now: float) -> bytes:  # noqa: ARG002  not in it
        return self._end_item(_STATUSES[sequence.ended or "abort"])

    def ending(self, sequences: ListOf[Sequence]) -> bytes:
        return self._end(_STATUSES[sequences[0].ended or "abort"])

    def cancelled(self) -> bytes:
        """What ends it when the client wants no more of it."""
        opening = self.opening(0) if self._sequence is None else b""
        return opening + self._end_item("cancelled") + self._end("cancelled")

    # --- parts

    @property
    def _text(self) -> str:
        return "" if self._sequence is None else self._sequence.output.head(self._sequence.sent)

    def _end_item(self, status: str) -> bytes:
        """The end of what is said, which then belongs to the conversation."""
        text, item = self._text, self._item(self._text, "completed" if status == "completed" else "incomplete")
        if self._call.tool:
            said = {"arguments": text, "name": self._call.tool}
            out = self._event("response.function_call_arguments.done", **self._place(), **said)
        else:
            out = self._event("response.output_text.done", **self._place(), text=text)
            out += self._event("response.content_part.done", **self._place(), part={"type": "text", "text": text})
        out += self._event("response.output_item.done", output_index=0, item=item, response_id=self._id)
        return out + b"".join(map(_line, self._conversation.add(item)))

    def _end(self, status: str) -> bytes:
        item = self._item(self._text, "completed" if status == "completed" else "incomplete")
        return self._event("response.done", response=self._response(status, [item]))

    def _event(self, name: str, /, **members: Any) -> bytes:
        return _line(self._conversation.event(name, **members))

    def _place(self) -> dict[str, Any]:
        place: dict[str, Any] = {"response_id": self._id, "item_id": self._item_id, "output_index": 0}
        return place | ({"call_id": self._call_id} if self._call.tool else {"content_index": 0})

    def _item(self, text: str, status: str) -> dict[str, Any]:
        row: dict[str, Any] = {"id": self._item_id, "object": "realtime.item", "status": status}
        if self._call.tool:
            called = {"type": "function_call", "call_id": self._call_id, "name": self._call.tool}
            return row | called | {"arguments": text}
        content = [{"type": "output_text", "text": text}] if status != "in_progress" else []
        return row | {"type": "message", "role": "assistant", "content": content}

    def _response(self, status: str, output: list[Any]) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": "realtime.response",
            "conversation_id": f"conv_{self._conversation.id}",
            "status": status,
            "status_details": _DETAILS.get(status),
            "output": output,
            "output_modalities": ["text"],
            "usage": None if self._sequence is None else _usage(self._sequence),
        }


def _line(event: Event) -> bytes:
    return msgspec.json.encode(event) + b"\n\n"


def _usage(sequence: Sequence) -> dict[str, Any]:
    read, written, cached = sequence.prompt.tokens, sequence.sent, sequence.cached_tokens
    return {
        "total_tokens": read + written,
        "input_tokens": read,
        "output_tokens": written,
        "input_token_details": {"text_tokens": read, "audio_tokens": 0, "cached_tokens": cached},
        "output_token_details": {"text_tokens": written, "audio_tokens": 0},
    }
