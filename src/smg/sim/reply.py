"""What the inference routes write their answers to: an exchange of the HTTP server, or a fault in between."""

from __future__ import annotations

from typing import Protocol


class Reply(Protocol):
    """One answer, whole or in pieces."""

    def answer(self, status: int, body: bytes = b"", content_type: bytes = b"application/json") -> None:
        """Answer at once."""

    def start(self, status: int, content_type: bytes = b"text/event-stream") -> None:
        """Begin an answer in pieces."""

    def write(self, piece: bytes) -> None:
        """Send one piece."""

    def end(self) -> None:
        """End an answer in pieces."""
