"""Header lists of HTTP/2: what of ours may be sent, and what of a worker's becomes the head of an answer.

A worker's list is checked by the rules of HTTP/1.1 as well as by those of HTTP/2, because it goes on to clients that
speak HTTP/1.1: a name or value that would read as two lines there must not get so far.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from smg.net.http1.codec import MAX_HEADERS, Field, ProtocolError, ResponseHead
from smg.protocol.headers import HOP_BY_HOP_HEADERS

Fields = Sequence[tuple[bytes, bytes]]

STATUS = b":status"
# What belongs to a connection of HTTP/1.1 has no place here; the authority is a pseudo-header.
NEVER_SENT = HOP_BY_HOP_HEADERS | {b"host", b"http2-settings"}

_CONTROLS = bytes(c for c in range(32) if c != ord("\t")) + b"\x7f"
_NAME = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
_STATUS_DIGITS = 3


def sendable(fields: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The fields without those that HTTP/2 forbids."""
    return [field for field in fields if field[0] not in NEVER_SENT]


def response_head(headers: Iterable[tuple[bytes, bytes]]) -> ResponseHead:
    """The head of an answer. Raises ProtocolError for a list that breaks the rules."""
    status = b""
    fields: list[Field] = []
    for name, value in headers:
        if name[:1] == b":":
            if name != STATUS or status or fields:
                raise ProtocolError("its pseudo-headers are wrong")
            status = bytes(value)
        else:
            fields.append(_field(bytes(name), bytes(value)))
    if len(status) != _STATUS_DIGITS or not status.isdigit():
        raise ProtocolError("no status")
    if len(fields) > MAX_HEADERS:
        raise ProtocolError("too many headers")
    return ResponseHead(int(status), fields, http10=False)


def _field(name: bytes, value: bytes) -> Field:
    if not name or name.translate(None, _NAME):
        raise ProtocolError("malformed header")
    if len(value.translate(None, _CONTROLS)) != len(value):
        raise ProtocolError("illegal character in a header")
    if name in HOP_BY_HOP_HEADERS:
        raise ProtocolError("a header of HTTP/1.1's connections")
    return name, value.strip(b" \t"), b"%b: %b" % (name, value)
