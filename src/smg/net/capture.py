"""One call to an engine, and as much of its answer as may be kept.

The call has a connection of its own, so that no traffic can stand in its way, and one deadline over all of it, from
connecting to the last byte. It is made once. An answer that is longer than the bound is not refused: its beginning is
kept, and the rest is not read. Redirects are answers.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass

from smg.errors import UpstreamError, UpstreamTimeout
from smg.lazy import resolve
from smg.net.address import Address
from smg.net.body import RequestBody
from smg.net.http1.pool import Pool, PoolOptions
from smg.net.http2.failures import NotHttp2
from smg.net.reply import Reply

_HTTP2_POOL = "smg.net.http2.pool:Http2Pool"  # loaded by the first worker that needs it
_BODYLESS_METHODS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request. `target` is path and query; `fields` are all but what makes a message: host, length, connection.

    `body` is not copied, however many calls share it.
    """

    method: str
    target: str
    fields: Sequence[tuple[bytes, bytes]] = ()
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Captured:
    """An engine's answer. `truncated` says that there was more than `body` holds."""

    status: int
    content_type: bytes
    body: bytes
    truncated: bool


@dataclass(frozen=True, slots=True)
class CallLimits:
    """What one call may take. `timeout_secs` is for all of it, `connect_timeout_secs` for its beginning."""

    timeout_secs: float
    connect_timeout_secs: float
    max_bytes: int


async def capture(
    address: Address, request: Outgoing, limits: CallLimits, *, http2: bool = False, tls: ssl.SSLContext | None = None
) -> Captured:
    """Send a request and capture the answer; that to a HEAD has no body, whatever it says.

    With `http2` the engine is spoken to in HTTP/2 if it does speak it. `tls` replaces the system's certificates for an
    https address. Raises UpstreamError, or UpstreamTimeout when connecting or the whole call takes too long;
    cancelling ends the connection.
    """
    try:
        async with asyncio.timeout(limits.timeout_secs):
            if http2:
                try:
                    return await _in_http2(address, request, limits, tls)
                except NotHttp2:
                    pass  # nothing of the request has been sent
            return await _in_http1(address, request, limits, tls)
    except TimeoutError:
        raise UpstreamTimeout("call_upstream_timeout", f"no answer within {limits.timeout_secs:g} s") from None
    except UnicodeError as error:  # of a host name that cannot be looked up
        raise UpstreamError("call_upstream_request_error", "the address is not valid") from error


async def _in_http1(address: Address, request: Outgoing, limits: CallLimits, tls: ssl.SSLContext | None) -> Captured:
    pool = Pool(address, PoolOptions(connect_timeout_secs=limits.connect_timeout_secs), tls)
    try:
        reply = await pool.call(http1_head(address, request), 0.0, content=request.body)
        return await _captured(reply, request, limits)
    finally:
        pool.close()


async def _in_http2(address: Address, request: Outgoing, limits: CallLimits, tls: ssl.SSLContext | None) -> Captured:
    pool = resolve(_HTTP2_POOL)(address, PoolOptions(connect_timeout_secs=limits.connect_timeout_secs), tls)
    try:
        # As a body that is piped it is sent once, whatever becomes of the connection.
        reply: Reply = await pool.call(http2_fields(address, request), 0.0, _whole(request.body))
        return await _captured(reply, request, limits)
    finally:
        pool.close()


def http1_head(address: Address, request: Outgoing) -> bytes:
    """The head of a call that asks to end the connection behind it."""
    lines = [
        f"{request.method} {request.target} HTTP/1.1\r\nhost: {address.authority}\r\nconnection: close\r\n".encode()
    ]
    lines += [b"%b: %b\r\n" % field for field in (*request.fields, *_length(request))]
    return b"".join([*lines, b"\r\n"])


def http2_fields(address: Address, request: Outgoing) -> list[tuple[bytes, bytes]]:
    """The header list of a call."""
    return [
        (b":method", request.method.encode()),
        (b":scheme", b"https" if address.tls else b"http"),
        (b":authority", address.authority.encode()),
        (b":path", request.target.encode()),
        *request.fields,
        *_length(request),
    ]


def _length(request: Outgoing) -> list[tuple[bytes, bytes]]:
    """A request says how long its body is; a GET or HEAD without one says nothing about it."""
    if not request.body and request.method in _BODYLESS_METHODS:
        return []
    return [(b"content-length", b"%d" % len(request.body))]


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
