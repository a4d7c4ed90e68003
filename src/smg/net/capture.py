"""One call to an engine, and as much of its answer as may be kept.

The call has a connection of its own, so that no traffic can stand in its way, and one deadline over all of it, from
connecting to the last byte. It is made once. An answer that is longer than the bound is not refused: its beginning is
kept, and the rest is not read. Redirects are answers.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass

from smg.errors import UpstreamError, UpstreamTimeout
from smg.net.address import Address
from smg.net.http1.pool import Pool, PoolOptions
from smg.net.reply import Reply


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
    address: Address, head: bytes, body: bytes, limits: CallLimits, *, tls: ssl.SSLContext | None = None
) -> Captured:
    """Send a request and capture the answer. `head` is complete; the answer to a HEAD has no body, whatever it says.
    `body` is not copied, however many calls share it.

    `tls` replaces the system's certificates for an https address. Raises UpstreamError, or UpstreamTimeout when
    connecting or the whole call takes too long; cancelling ends the connection.
    """
    pool = Pool(address, PoolOptions(connect_timeout_secs=limits.connect_timeout_secs), tls)
    try:
        async with asyncio.timeout(limits.timeout_secs):
            reply = await pool.call(head, 0.0, content=body)
            try:
                return await _captured(reply, 0 if head.startswith(b"HEAD ") else limits.max_bytes)
            finally:
                reply.close()
    except TimeoutError:
        raise UpstreamTimeout("call_upstream_timeout", f"no answer within {limits.timeout_secs:g} s") from None
    except UnicodeError as error:  # of a host name that cannot be looked up
        raise UpstreamError("call_upstream_request_error", "the address is not valid") from error
    finally:
        pool.close()


async def _captured(reply: Reply, max_bytes: int) -> Captured:
    head = reply.head
    if not max_bytes:
        return Captured(reply.status, head.content_type, b"", truncated=False)
    prefix = _Prefix(reply, max_bytes)
    try:
        await reply.pump(prefix.write)
    except UpstreamError:
        if not prefix.exceeded:
            raise
    return Captured(reply.status, head.content_type, b"".join(prefix.pieces)[:max_bytes], prefix.exceeded)


class _Prefix:
    """The beginning of an answer; the connection ends with the first byte too many."""

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
