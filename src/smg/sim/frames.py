"""WebSocket frames at a server (RFC 6455 section 5): a client's bytes in, its messages out.

Masks are demanded, fragments joined. What breaks the rules, or is longer than `MAX_MESSAGE_BYTES`, ends the connection
with the code that says why. Extensions are never agreed on.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MAX_MESSAGE_BYTES: Final = 1 << 20
NORMAL, PROTOCOL_ERROR, INVALID_DATA, TOO_BIG = 1000, 1002, 1007, 1009

_FIN, _RESERVED, _OPCODE, _MASKED = 0x80, 0x70, 0x0F, 0x80
_SHORT, _LONG = 126, 127
_CONTROL = 8
_MOST_CONTROL_BYTES = 125
_CODE_BYTES = 2


class FrameError(Exception):
    """The client broke the rules; `code` is what the connection is closed with."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Message(NamedTuple):
    """A whole message, or a control frame."""

    opcode: int
    payload: bytes


class FrameReader:
    """Takes a client's bytes as they come."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._opcode = 0
        self._pieces = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """The messages that are complete now. Raises FrameError."""
        self._buffer += data
        messages = []
        while (frame := self._frame()) is not None:
            message = self._joined(*frame)
            if message is not None:
                messages.append(message)
        return messages

    def _frame(self) -> tuple[int, int, bytes] | None:
        """The next frame: its first byte, its opcode and its payload; None while it is not there."""
        buffer = self._buffer
        if len(buffer) < _CODE_BYTES:
            return None
        first, size = buffer[0], buffer[1] & ~_MASKED
        if first & _RESERVED or not buffer[1] & _MASKED:
            raise FrameError(PROTOCOL_ERROR, "a client's frames are masked, and use no extension")
        if first & _CONTROL and (size > _MOST_CONTROL_BYTES or not first & _FIN):
            raise FrameError(PROTOCOL_ERROR, "a control frame is short and whole")
        at = {_SHORT: 4, _LONG: 10}.get(size, 2)
        if len(buffer) < at + 4:
            return None
        if size >= _SHORT:
            (size,) = struct.unpack_from("!H" if size == _SHORT else "!Q", buffer, 2)
        if size + len(self._pieces) > MAX_MESSAGE_BYTES:
            raise FrameError(TOO_BIG, "the message is too long")
        if len(buffer) < at + 4 + size:
            return None
        payload = _unmasked(bytes(buffer[at + 4 : at + 4 + size]), bytes(buffer[at : at + 4]))
        del buffer[: at + 4 + size]
        return first, first & _OPCODE, payload

    def _joined(self, first: int, opcode: int, payload: bytes) -> Message | None:
        if opcode & _CONTROL:
            if opcode not in (CLOSE, PING, PONG):
                raise FrameError(PROTOCOL_ERROR, "there is no such control frame")
            return Message(opcode, payload)
        if opcode not in (CONTINUATION, TEXT, BINARY) or (opcode == CONTINUATION) is not bool(self._opcode):
            raise FrameError(PROTOCOL_ERROR, "a message begins once, and goes on only when it has begun")
        self._opcode = self._opcode or opcode
        self._pieces += payload
        if not first & _FIN:
            return None
        message = Message(self._opcode, bytes(self._pieces))
        self._opcode = 0
        self._pieces.clear()
        return message


def frame(opcode: int, payload: bytes = b"") -> bytes:
    """A server's frame, which has no mask."""
    size = len(payload)
    if size < _SHORT:
        return struct.pack("!BB", _FIN | opcode, size) + payload
    if size < 1 << 16:
        return struct.pack("!BBH", _FIN | opcode, _SHORT, size) + payload
    return struct.pack("!BBQ", _FIN | opcode, _LONG, size) + payload


def closing(code: int, reason: str = "") -> bytes:
    """The frame that ends a connection."""
    return frame(CLOSE, struct.pack("!H", code) + reason.encode()[: _MOST_CONTROL_BYTES - _CODE_BYTES])


def _unmasked(payload: bytes, mask: bytes) -> bytes:
    size = len(payload)
    key = int.from_bytes((mask * (size // 4 + 1))[:size], "big")
    return (int.from_bytes(payload, "big") ^ key).to_bytes(size, "big")
