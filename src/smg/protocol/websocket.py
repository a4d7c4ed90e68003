"""The opening handshake of WebSockets (RFC 6455 section 4), seen from between its two ends.

The gateway is the server of the client's handshake and the client of the worker's: each has a key of its own and is
checked by itself. What the two ends agree on, a subprotocol and extensions, is offered and chosen across the gateway,
so that the frames which follow mean the same to both of them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable
from typing import Final, NamedTuple

VERSION: Final = b"13"
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 section 1.3
_KEY_BYTES: Final = 16

Headers = dict[bytes, bytes]


class NoHandshake(Exception):  # noqa: N818  says what the request, or the answer, is
    """A request that opens no WebSocket, with the status and the headers to refuse it with; or a worker's 101 that
    does not either.
    """

    def __init__(self, reason: str, status: int = 400, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.headers = headers


class Offer(NamedTuple):
    """What a client's handshake says: its key, and the lists of subprotocols and extensions, empty without."""

    key: bytes
    protocols: bytes = b""
    extensions: bytes = b""


def offer_of(headers: Headers, *, http10: bool = False) -> Offer:
    """What a client's GET offers. Raises NoHandshake if it opens no WebSocket.

    `headers` have lower-case names; the values of a repeated one are joined with a comma.
    """
    if http10 or b"websocket" not in _tokens(headers.get(b"upgrade")):
        raise NoHandshake("this route takes WebSocket upgrades of HTTP/1.1", 426, ((b"upgrade", b"websocket"),))
    if b"upgrade" not in _tokens(headers.get(b"connection")):
        raise NoHandshake("the Connection header of an upgrade must name it")
    if headers.get(b"sec-websocket-version") != VERSION:
        version = (b"sec-websocket-version", VERSION)
        raise NoHandshake("the version of WebSocket must be 13", 426, ((b"upgrade", b"websocket"), version))
    key = headers.get(b"sec-websocket-key", b"")
    if not _is_key(key):
        raise NoHandshake("Sec-WebSocket-Key must be 16 bytes in base64")
    return Offer(key, headers.get(b"sec-websocket-protocol", b""), headers.get(b"sec-websocket-extensions", b""))


def key_of(nonce: bytes) -> bytes:
    """The key of a handshake of our own, from 16 random bytes."""
    return base64.b64encode(nonce)


def accept_of(key: bytes) -> bytes:
    """What a server answers to a key."""
    return base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())


def request_lines(offer: Offer, key: bytes) -> bytes:
    """The header lines that make a request to a worker a handshake, with what the client offers."""
    lines = [
        b"upgrade: websocket",
        b"connection: Upgrade",
        b"sec-websocket-version: " + VERSION,
        b"sec-websocket-key: " + key,
    ]
    if offer.protocols:
        lines.append(b"sec-websocket-protocol: " + offer.protocols)
    if offer.extensions:
        lines.append(b"sec-websocket-extensions: " + offer.extensions)
    return b"\r\n".join(lines) + b"\r\n"


def answer_lines(offer: Offer, key: bytes, fields: Iterable[tuple[bytes, bytes, bytes]]) -> bytes:
    """The header lines of our 101 to the client, from those of the worker's 101 to a handshake with `key`.

    Raises NoHandshake if the worker's is none, or chooses what nobody offered.
    """
    headers: Headers = {}
    for name, value, _ in fields:
        headers[name] = b"%b, %b" % (headers[name], value) if name in headers else value
    if b"websocket" not in _tokens(headers.get(b"upgrade")) or b"upgrade" not in _tokens(headers.get(b"connection")):
        raise NoHandshake("it switches to something else than WebSocket")
    if headers.get(b"sec-websocket-accept") != accept_of(key):
        raise NoHandshake("its Sec-WebSocket-Accept does not answer the key")
    lines = [b"upgrade: websocket", b"connection: Upgrade", b"sec-websocket-accept: " + accept_of(offer.key)]
    protocol = headers.get(b"sec-websocket-protocol")
    if protocol:  # an empty one chooses nothing
        if protocol not in _items(offer.protocols):
            raise NoHandshake("it chooses a subprotocol that was not offered")
        lines.append(b"sec-websocket-protocol: " + protocol)
    extensions = headers.get(b"sec-websocket-extensions")
    if extensions:
        if not _names(extensions) <= _names(offer.extensions):
            raise NoHandshake("it chooses an extension that was not offered")
        lines.append(b"sec-websocket-extensions: " + extensions)
    return b"\r\n".join(lines) + b"\r\n"


def _is_key(key: bytes) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == _KEY_BYTES
    except binascii.Error:
        return False


def _items(value: bytes | None) -> list[bytes]:
    return [item.strip(b" \t") for item in (value or b"").split(b",")]


def _tokens(value: bytes | None) -> list[bytes]:
    """The items of a list that is read in any case."""
    return [item.lower() for item in _items(value)]


def _names(extensions: bytes) -> set[bytes]:
    """The extensions of a list, without their parameters."""
    return {item.partition(b";")[0].strip(b" \t") for item in _items(extensions)}
