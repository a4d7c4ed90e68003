"""A call to an engine as it goes out, and as much of its answer as may be kept: the words of `calls.py`.

An answer that is longer than the bound is not refused: its beginning is kept, and the rest is not read. Redirects are
answers.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from smg.errors import UpstreamError
from smg.lazy import resolve
from smg.net.address import Address
from smg.net.body import RequestBody
from smg.net.http1.pool import PoolOptions

if TYPE_CHECKING:
    from smg.net.reply import Reply

_HTTP2_POOL = "smg.net.http2.pool:Http2Pool"  # loaded by the first worker that needs it
_BODYLESS_METHODS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request. `target` is path and query; `fields` are all but what makes a message: host, length, connection.

    `body` is not copied, however many calls share it. `http1_parts` is the head before the host's name and behind its
    line, which is the same for all hosts.
    """

    method: str
    target: str
    fields: Sequence[tuple[bytes, bytes]] = ()
    body: bytes = b""
    http1_parts: tuple[bytes, bytes] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        lines = b"".join([b"%b: %b\r\n" % line for line in (*self.fields, *_length(self))])
        before = f"{self.method} {self.target} HTTP/1.1\r\nhost: ".encode()
        object.__setattr__(self, "http1_parts", (before, lines + b"\r\n"))


class Captured(NamedTuple):
    """An engine's answer. `truncated` says that there was more than `body` holds."""

    status: int
    content_type: bytes
    body: bytes
    truncated: bool


@dataclass(frozen=True, slots=True)
class CallLimits:
    """What one call may take. `timeout_secs` is for all of it, `connect_timeout_secs` for its beginning.

    `keep_secs` is how long its connection may be kept for another one; with 0 it ends behind the call.
    """

    timeout_secs: float
    connect_timeout_secs: float
    max_bytes: int
    keep_secs: float = 0.0


def http1_head(address: Address, request: Outgoing, *, keep: bool = False) -> bytes:
    """The head of a call, which asks to end the connection behind it if that is not to be kept."""
    before, behind = request.http1_parts
    end = b"\r\n" if keep else b"\r\nconnection: close\r\n"
    return b"%b%b%b%b" % (before, address.authority, end, behind)


def http2_fields(address: Address, request: Outgoing) -> list[tuple[bytes, bytes]]:
    """The header list of a call."""
    return [
        (b":method", request.method.encode()),
        (b":scheme", b"https" if address.tls else b"http"),
        (b":authority", address.authority),
        (b":path", request.target.encode()),
        *request.fields,
        *_length(request),
    ]


def _length(request: Outgoing) -> list[tuple[bytes, bytes]]:
    """A request says how long its body is; a GET or HEAD without one says nothing about it."""
    if not request.body and request.method in _BODYLESS_METHODS:
        return []
    return [(b"content-length", b"%d" % len(request.body))]


async def capture_in_http2(
    address: Address, request: Outgoing, limits: CallLimits, tls: ssl.SSLContext | None
) -> Captured:
    """Make a call on an HTTP/2 connection of its own. Its deadline is the caller's business.

    Raises NotHttp2 if the engine does not speak it, and UpstreamError.
    """
    pool = resolve(_HTTP2_POOL)(address, PoolOptions(connect_timeout_secs=limits.connect_timeout_secs), tls)
    try:
        # As a body that is piped it is sent once, whatever becomes of the connection.
        reply: Reply = await pool.call(http2_fields(address, request), 0.0, _whole(request.body))
        return await _captured(reply, request, limits)
    finally:
        pool.close()


async def _captured(reply: Reply, request: Outgoing, limits: CallLimits) -> Captured:
    head = reply.head
    try:
        if request.method == "HEAD":
            return Captured(reply.status, head.content_type, b"", truncated=False)
        prefix = _Prefix(reply, limits.max_bytes)
        try:
            await reply.pump(prefix.write)
        except UpstreamError:
            if not prefix.exceeded:
                raise
        body = b"".join(prefix.pieces)[: limits.max_bytes]
        return Captured(reply.status, head.content_type, body, prefix.exceeded)
    finally:
        reply.close()


class _Prefix:
    """The beginning of an answer, which ends with the first byte too many."""

    __slots__ = ("_left", "_reply", "exceeded", "pieces")

    def __init__(self, reply: Reply, max_bytes: int) -> None:
        self._reply = reply
        self._left = max_bytes
        self.pieces: list[bytes] = []
        self.exceeded = False

    def write(self, piece: bytes) -> None:
        if self.exceeded:
            return
        self.pieces.append(piece)
        self._left -= len(piece)
        if self._left < 0:
            self.exceeded = True
            self._reply.close()
            # Not every connection says so when it was told to end; the error itself is seen by nobody.
            self._reply.finish(UpstreamError("upstream_response_too_large", "there is enough of it"))


class _NoSource:
    """Where a body came from that is here already."""

    def hold(self) -> None:
        """Nobody sends."""

    def unhold(self) -> None:
        """Nobody waits."""

    def invite(self) -> None:
        """Nobody asks."""


def _whole(body: bytes) -> RequestBody:
    """A body that is complete, as one to pipe."""
    whole = RequestBody(_NoSource(), len(body), len(body), 0.0)
    if body:
        whole.put_whole(body)
    return whole
