"""One realtime session as a state: what the client's events do to it, and what is answered to them.

Speech is heard as the bytes that it is, and what the model says is text. When a response is wanted, `chat` gives the
request that says the same; `realtime_form` has the events of its answer.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from smg.sim.dialect import SimError
from smg.sim.responses import message_of, tool_of

Event = dict[str, Any]

MOST_ITEMS: Final = 1000
MOST_BYTES: Final = 16 * 1024 * 1024
MOST_AUDIO_BYTES: Final = 16 * 1024 * 1024
RESPOND: Final = "response.create"
CANCEL: Final = "response.cancel"


class Conversation:
    """The items, the settings and the audio of one session. Events that cannot be followed raise SimError 400."""

    def __init__(self, model: str, id_: str) -> None:
        self.id = id_
        self._items: list[dict[str, Any]] = []
        self._bytes = 0
        self._session: dict[str, Any] = {
            "type": "realtime",
            "object": "realtime.session",
            "id": f"sess_{id_}",
            "model": model,
            "output_modalities": ["text"],
            "instructions": "",
            "tools": [],
            "tool_choice": "auto",
            "max_output_tokens": "inf",
        }
        self._audio = hashlib.sha256()
        self._audio_bytes = 0
        self._numbers = 0

    # --- what is said

    def number(self) -> str:
        """A new suffix for the id of something in this session."""
        self._numbers += 1
        return f"{self.id}{self._numbers:06x}"

    def event(self, name: str, /, **members: Any) -> Event:
        """An event of the server's."""
        return {"type": name, "event_id": f"event_{self.number()}", **members}

    def greeting(self) -> Event:
        """What the server says first."""
        return self.event("session.created", session=self._session)

    def error(self, error: SimError, about: object = None) -> Event:
        """An event that could not be followed; the session goes on."""
        told = {"type": "invalid_request_error", "code": None, "message": error.message, "param": error.param}
        return self.event("error", error=told | {"event_id": about})

    def take(self, event: Event) -> list[Event]:
        """Follow an event of the client's that asks for no response; returns the answers."""
        follow = _FOLLOWED.get(str(event.get("type")))
        if follow is None:
            raise SimError(400, f"there is no event '{event.get('type')}'", "type")
        return follow(self, event)

    def add(self, item: dict[str, Any]) -> list[Event]:
        """Put an item at the end."""
        last = self._items[-1]["id"] if self._items else None
        self._items.append(item)
        names = ("conversation.item.added", "conversation.item.done")
        return [self.event(name, previous_item_id=last, item=item) for name in names]

    def chat(self, event: Event) -> bytes:
        """The body of the chat whose answer is the response that an event asks for."""
        asked = event.get("response") or {}
        if not isinstance(asked, dict):
            raise SimError(400, "response must be an object", "response")
        settings = self._session | {name: value for name, value in asked.items() if value is not None}
        items = asked.get("input")
        if not isinstance(items, list):
            items = self._items
        head = [{"role": "system", "content": settings["instructions"]}] if settings["instructions"] else []
        said = [message_of(item) for item in items if isinstance(item, dict)]
        chat: dict[str, Any] = {
            "model": self._session["model"],
            "stream": True,
            "messages": [*head, *(said or [{"role": "user", "content": ""}])],
            "tool_choice": settings["tool_choice"],
        }
        if settings["tools"]:
            chat["tools"] = [tool_of(tool) for tool in settings["tools"] if isinstance(tool, dict)]
        if settings["max_output_tokens"] != "inf":
            chat["max_tokens"] = settings["max_output_tokens"]
        return msgspec.json.encode(chat)

    # --- what the client says

    def _update(self, event: Event) -> list[Event]:
        changes = event.get("session")
        if not isinstance(changes, dict):
            raise SimError(400, "session must be an object", "session")
        fixed = {"id", "object", "model"}
        self._session |= {name: value for name, value in changes.items() if name not in fixed}
        return [self.event("session.updated", session=self._session)]

    def _create(self, event: Event) -> list[Event]:
        item = event.get("item")
        if not isinstance(item, dict) or not isinstance(item.get("type"), str):
            raise SimError(400, "item must be an object with a type", "item")
        given = {"id": f"item_{self.number()}", **item}
        self._make_room(given)
        return self.add(given | {"object": "realtime.item", "status": "completed"})

    def _make_room(self, item: dict[str, Any]) -> None:
        """Refuse what the client would add to a conversation that is too long already. It never gets shorter."""
        self._bytes += len(msgspec.json.encode(item))
        if len(self._items) >= MOST_ITEMS or self._bytes > MOST_BYTES:
            raise SimError(400, f"a conversation has at most {MOST_ITEMS} items, and {MOST_BYTES} bytes")

    def _delete(self, event: Event) -> list[Event]:
        item_id = event.get("item_id")
        kept = [item for item in self._items if item["id"] != item_id]
        if len(kept) == len(self._items):
            raise SimError(400, f"there is no item '{item_id}'", "item_id")
        self._items = kept
        return [self.event("conversation.item.deleted", item_id=item_id)]

    def _hear(self, event: Event) -> list[Event]:
        try:
            audio = base64.b64decode(str(event.get("audio")), validate=True)
        except binascii.Error:
            raise SimError(400, "audio must be base64", "audio") from None
        self._audio_bytes += len(audio)
        if self._audio_bytes > MOST_AUDIO_BYTES:
            raise SimError(400, f"the audio buffer holds at most {MOST_AUDIO_BYTES} bytes", "audio")
        self._audio.update(audio)
        return []

    def _commit(self, _: Event) -> list[Event]:
        if not self._audio_bytes:
            raise SimError(400, "the audio buffer is empty")
        heard = {"type": "input_audio", "transcript": f"audio {self._audio.hexdigest()[:16]}"}
        self._clear(_)
        item = {"id": f"item_{self.number()}", "object": "realtime.item", "type": "message", "role": "user"}
        self._make_room(item)
        last = self._items[-1]["id"] if self._items else None
        committed = self.event("input_audio_buffer.committed", previous_item_id=last, item_id=item["id"])
        return [committed, *self.add(item | {"status": "completed", "content": [heard]})]

    def _clear(self, _: Event) -> list[Event]:
        self._audio = hashlib.sha256()
        self._audio_bytes = 0
        return [self.event("input_audio_buffer.cleared")]


_FOLLOWED: dict[str, Callable[[Conversation, Event], list[Event]]] = {
    "session.update": Conversation._update,  # noqa: SLF001  the table of this class
    "conversation.item.create": Conversation._create,  # noqa: SLF001
    "conversation.item.delete": Conversation._delete,  # noqa: SLF001
    "input_audio_buffer.append": Conversation._hear,  # noqa: SLF001
    "input_audio_buffer.commit": Conversation._commit,  # noqa: SLF001
    "input_audio_buffer.clear": Conversation._clear,  # noqa: SLF001
}
