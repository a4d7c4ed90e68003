"""HTTP/1.1 as far as this client needs it, without any I/O: a request as bytes, a reply from bytes in any pieces.

Both twins use it, so both understand the same replies. It is strict: what servers and proxies may read in two ways is
refused. One connection carries one exchange, so what follows a reply is nobody's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

# Enough for any server's head; a body has no bound, since the report of a fan-out grows with the fleet.
MAX_HEAD_BYTES = 64 * 1024
MAX_CHUNK_LINE_BYTES = 4096

_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: [^\r\n]*)?")
_FIELD_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_DIGITS = re.compile(rb"[0-9]{1,18}")
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")
_END = b"\r\n"
_WITHOUT_BODY = frozenset({204, 304})
_SWITCHING = 101
_FIRST_FINAL_STATUS = 200


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply."""

    status: int
    body: bytes | bytearray


def render(method: str, target: str, fields: list[tuple[str, str]], body: bytes | None) -> bytes:
    """A request on the wire. Only a length is added to the given fields: a POST without a body announces 0."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields)]
    if body is not None or method not in {"GET", "HEAD"}:
        lines.append(f"Content-Length: {len(body or b'')}")
    return "\r\n".join([*lines, "", ""]).encode("utf-8") + (body or b"")


class ReplyReader:
    """Feed it what comes, until `reply` is there. `finish` says that nothing will come any more.

    Both raise ConnectionError for a reply that is malformed or incomplete.
    """

    def __init__(self, *, bodiless: bool = False) -> None:
        """`bodiless`: the request was a HEAD, whose reply only announces a body."""
        self.reply: Reply | None = None
        self._bodiless = bodiless
        self._buffer = bytearray()
        self._body = bytearray()
        self._status = 0
        self._left = 0
        self._until_close = False
        # Takes from the buffer what it can; false when it needs more.
        self._step: Callable[[], bool] = self._head

    def feed(self, data: bytes) -> None:
        """Take the next piece."""
        self._buffer += data
        while self.reply is None and self._step():
            pass

    def finish(self) -> None:
        """Take the end of the connection, which ends a body that announced no length."""
        if self.reply is None and self._until_close:
            self._complete()
        if self.reply is None:
            raise ConnectionError("the connection ended before the reply was complete")

    def _complete(self) -> bool:
        self.reply = Reply(self._status, self._body)
        return False

    # --- head

    def _head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            self._bound(MAX_HEAD_BYTES, "head")
            return False
        line, *lines = self._take(end + 4)[:-4].split(_END)
        match = _STATUS_LINE.fullmatch(line)
        if match is None:
            raise ConnectionError("the reply does not begin as HTTP/1.1 does")
        self._status = int(match[1])
        if self._status == _SWITCHING:
            raise ConnectionError("the reply switches protocols, which nobody asked for")
        if self._status >= _FIRST_FINAL_STATUS:
            self._begin_body(_fields(lines))
        return True

    def _begin_body(self, fields: dict[bytes, list[bytes]]) -> None:
        lengths, codings = fields.get(b"content-length", []), fields.get(b"transfer-encoding", [])
        if codings:
            if lengths or len(codings) != 1 or codings[0].lower() != b"chunked":
                raise ConnectionError("the reply frames its body in more than one way")
            self._step = self._chunk_line
        elif lengths:
            if len(set(lengths)) != 1 or not _DIGITS.fullmatch(lengths[0]):
                raise ConnectionError("the reply has no usable length")
            self._left, self._step = int(lengths[0]), self._sized
        else:
            self._until_close, self._step = True, self._rest
        if self._bodiless or self._status in _WITHOUT_BODY:
            self._until_close, self._step = False, self._complete

    # --- body

    def _sized(self) -> bool:
        self._take_body()
        return self._complete() if self._left == 0 else False

    def _rest(self) -> bool:
        self._body += self._take(len(self._buffer))
        return False

    def _chunk_line(self) -> bool:
        line = self._line(MAX_CHUNK_LINE_BYTES, "line of a chunk")
        if line is None:
            return False
        match = _CHUNK_LINE.fullmatch(line)
        if match is None:
            raise ConnectionError("the reply has a chunk without a size")
        self._left = int(match[1], 16)
        self._step = self._chunk if self._left else self._trailer
        return True

    def _chunk(self) -> bool:
        self._take_body()
        if self._left or len(self._buffer) < len(_END):
            return False
        if self._take(len(_END)) != _END:
            raise ConnectionError("the reply has a chunk that is longer than its size")
        self._step = self._chunk_line
        return True

    def _trailer(self) -> bool:
        """Skip the fields after the last chunk."""
        line = self._line(MAX_HEAD_BYTES, "trailer")
        if line is None:
            return False
        return bool(line) or self._complete()

    # --- the buffer

    def _take(self, count: int) -> bytes:
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def _take_body(self) -> None:
        taken = self._take(min(self._left, len(self._buffer)))
        self._left -= len(taken)
        self._body += taken

    def _line(self, limit: int, what: str) -> bytes | None:
        end = self._buffer.find(_END)
        if end < 0:
            self._bound(limit, what)
            return None
        return self._take(end + len(_END))[: -len(_END)]

    def _bound(self, limit: int, what: str) -> None:
        if len(self._buffer) > limit:
            raise ConnectionError(f"the {what} of the reply is longer than {limit} bytes")


def _fields(lines: list[bytes]) -> dict[bytes, list[bytes]]:
    """Values by lower-case name, lists at commas taken apart."""
    fields: dict[bytes, list[bytes]] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not _FIELD_NAME.fullmatch(name) or b"\n" in value or b"\r" in value or b"\0" in value:
            raise ConnectionError("the reply has a malformed header field")
        fields.setdefault(name.lower(), []).extend(item.strip(b" \t") for item in value.split(b","))
    return fields
