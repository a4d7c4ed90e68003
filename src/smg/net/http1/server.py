"""The HTTP/1.1 listener, and what its connections share: limits, one sweep for deadlines, bursts, the date.

Deadlines (a head that takes too long, a connection that idles, an upload that stalls, a stream that is silent) are kept
by one sweep over all connections, so that a request arms no timer. What one connection does is `connection.py`; what
the routes are, and what wraps them, is the handler's business.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any

from smg.net.exchange import BURST_SECS, Exchange
from smg.net.http1.connection import ServerConnection
from smg.net.sweep import Sweeper, interval_for

ExchangeHandler = Callable[[Exchange], Coroutine[Any, Any, None] | None]

LISTEN_BACKLOG = 4096


@dataclass(frozen=True, slots=True)
class Limits:
    """What a listener allows. Timeouts of 0 are off."""

    max_body_bytes: int = 512 * 1024 * 1024
    header_read_timeout_secs: float = 30.0
    idle_timeout_secs: float = 90.0
    upload_stall_timeout_secs: float = 300.0
    sse_keepalive_secs: float = 15.0


class HeldConnections:
    """Connections that are not read from at the moment, looked at twice a second for clients that left."""

    INTERVAL_SECS = 0.5

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._sweeper = Sweeper(loop, self.INTERVAL_SECS)
        self._members: dict[ServerConnection, _HeldConnection] = {}

    def add(self, connection: ServerConnection) -> None:
        if connection not in self._members:
            self._members[connection] = held = _HeldConnection(connection)
            self._sweeper.add(held)

    def discard(self, connection: ServerConnection) -> None:
        held = self._members.pop(connection, None)
        if held is not None:
            self._sweeper.discard(held)

    def stop(self) -> None:
        self._sweeper.stop()


@dataclass(frozen=True, slots=True, eq=False)
class _HeldConnection:
    connection: ServerConnection

    def sweep(self, now: float) -> None:  # noqa: ARG002  a socket's state has no clock
        self.connection.check_peer()


class Server:
    """A listener and its connections."""

    def __init__(self, handler: ExchangeHandler, limits: Limits) -> None:
        self.loop = asyncio.get_running_loop()
        self.handler = handler
        self.limits = limits
        self.stopping = False
        self.connections = Sweeper(
            self.loop,
            interval_for(
                limits.header_read_timeout_secs,
                limits.idle_timeout_secs,
                limits.upload_stall_timeout_secs,
                limits.sse_keepalive_secs,
            ),
        )
        self.held = HeldConnections(self.loop)
        self._listener: asyncio.Server | None = None
        self._bursts: list[Exchange] = []
        self._date = b""
        self._date_second = 0

    async def listen(self, host: str, port: int) -> None:
        """Start accepting; raises OSError when the address is taken."""
        self._listener = await self.loop.create_server(
            lambda: ServerConnection(self), host, port, backlog=LISTEN_BACKLOG, reuse_address=True
        )

    @property
    def port(self) -> int:
        """The port listened on, also when 0 was asked for."""
        assert self._listener is not None
        return int(self._listener.sockets[0].getsockname()[1])

    def stop_listening(self) -> None:
        """Accept no more. Idle connections end now, busy ones after their exchange."""
        self.stopping = True
        if self._listener is not None:
            self._listener.close()
        for connection in self.connections.members():
            assert isinstance(connection, ServerConnection)
            connection.close_when_idle()

    @property
    def busy(self) -> int:
        """How many exchanges are under way."""
        return sum(1 for c in self.connections.members() if isinstance(c, ServerConnection) and c.busy)

    def abort(self) -> None:
        """Cut every connection that is left."""
        for connection in self.connections.members():
            assert isinstance(connection, ServerConnection)
            connection.abort()
        self.connections.stop()
        self.held.stop()

    def flush_soon(self, exchange: Exchange) -> None:
        """Flush an exchange's burst within `BURST_SECS`; all bursts share one timer."""
        if not self._bursts:
            self.loop.call_later(BURST_SECS, self._flush_bursts)
        self._bursts.append(exchange)

    def _flush_bursts(self) -> None:
        bursts, self._bursts = self._bursts, []
        for exchange in bursts:
            exchange.flush()

    def date_line(self) -> bytes:
        second = int(time.time())
        if second != self._date_second:
            self._date_second = second
            self._date = b"date: " + formatdate(second, usegmt=True).encode() + b"\r\n"
        return self._date


async def serve(handler: ExchangeHandler, host: str, port: int, limits: Limits | None = None) -> Server:
    """Listen on an address and hand every exchange to `handler`."""
    server = Server(handler, limits or Limits())
    await server.listen(host, port)
    return server
