"""The outside of HTTP/2 frames: where each begins and ends, before h2 looks into them. Sans I/O.

Three things are better decided here than there. A peer that does not speak HTTP/2 shows with its first bytes, and a
frame that is too long with its head, where h2 would wait for the whole of it. GOAWAY is taken out: to h2 it ends the
connection, while the standard lets the streams up to its last one finish. And frames that cost their sender nothing
are counted.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_FRAME_BYTES = 16384
_HEAD_BYTES = 9
_GOAWAY_BYTES = 8

_DATA, _SETTINGS, _GOAWAY = 0x0, 0x4, 0x7
# What carries no part of an answer and yet wants work: PRIORITY, SETTINGS, PING, CONTINUATION. Unknown kinds count too.
_IDLE_TALK = frozenset({0x2, 0x4, 0x6, 0x9})
_LAST_KNOWN = 0x9
_END_STREAM = 0x1


class FrameError(Exception):
    """What came is no sequence of frames. `foreign` says that it never was: the peer does not speak HTTP/2."""

    def __init__(self, reason: str, *, foreign: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.foreign = foreign


class Goaway(NamedTuple):
    """The peer takes no new stream; those above `last_stream_id` it has not looked at."""

    last_stream_id: int


class Splitter:
    """Cuts GOAWAY frames out of what a peer sends.

    `idle_talk` counts the frames that carry nothing, until somebody sets it back.
    """

    __slots__ = ("_begun", "_held", "_left", "idle_talk")

    def __init__(self) -> None:
        self._held = b""
        self._left = 0  # of the payload of a frame that is passed on
        self._begun = False
        self.idle_talk = 0

    def feed(self, data: bytes) -> list[bytes | Goaway]:
        """What to do with the next bytes, in order: bytes are h2's. Raises FrameError."""
        if self._held:
            data, self._held = self._held + data, b""
        end = len(data)
        parts: list[bytes | Goaway] = []
        start = 0
        position = min(self._left, end)
        self._left -= position
        while position < end:
            if end - position < _HEAD_BYTES:
                self._check_start(data[position:])
                self._held, end = data[position:], position
                break
            kind, after = data[position + 3], position + _HEAD_BYTES + self._length(data, position)
            if kind == _GOAWAY and after > end:
                self._held, end = data[position:], position
                break
            if kind == _GOAWAY:
                if position > start:
                    parts.append(data[start:position])
                parts.append(_goaway(data[position + _HEAD_BYTES : after]))
                start = after
            elif after > end:
                self._left = after - end
            position = min(after, end)
        if end > start:
            parts.append(data[start:end])
        return parts

    def _length(self, data: bytes, position: int) -> int:
        """The payload's length of the frame that begins here."""
        length = int.from_bytes(data[position : position + 3])
        kind = data[position + 3]
        if not self._begun:
            self._check_start(data[position : position + _HEAD_BYTES])
            self._begun = True
        elif length > MAX_FRAME_BYTES:
            raise FrameError(f"a frame of {length} bytes")
        empty = kind == _DATA and not length and not data[position + 4] & _END_STREAM
        if empty or kind in _IDLE_TALK or kind > _LAST_KNOWN:
            self.idle_talk += 1
        return length

    def _check_start(self, head: bytes) -> None:
        """Every HTTP/2 connection begins with the peer's settings, which fit into a frame of any size."""
        if self._begun:
            return
        too_long = int.from_bytes(head[:3].ljust(3, b"\0")) > MAX_FRAME_BYTES
        if too_long or (len(head) > 3 and head[3] != _SETTINGS):  # noqa: PLR2004  where the kind stands
            raise FrameError("its first bytes are no settings", foreign=True)


def _goaway(payload: bytes) -> Goaway:
    if len(payload) < _GOAWAY_BYTES:
        raise FrameError("a GOAWAY without a last stream")
    return Goaway(int.from_bytes(payload[:4]) & 0x7FFF_FFFF)
