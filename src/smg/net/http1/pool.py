"""Connections to one worker address: kept while they are fresh, opened when none is idle.

The most recently used connection goes out first, so that surplus ones grow old and are closed by the sweep. A worker
may close an idle connection at any moment; a request that loses such a race before any byte of the answer is sent once
more, on a fresh connection, and never again.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from functools import cache

from smg.errors import UpstreamError, UpstreamTimeout
from smg.net.address import Address
from smg.net.body import Upload
from smg.net.http1.client import LostBeforeAnswer, UpstreamConnection
from smg.net.reply import Reply


@cache
def trusted() -> ssl.SSLContext:
    """The system's certificates: read once, since that takes longer than many a call."""
    return ssl.create_default_context()


def unreachable(error: Exception) -> UpstreamError:
    """What a worker that cannot be connected to fails with."""
    reason = getattr(error, "strerror", None) or type(error).__name__
    return UpstreamError("call_upstream_connection_failed", f"could not connect to the worker: {reason}")


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """`idle_timeout_secs` must stay below the keep-alive timeout of the engines; 0 keeps idle connections for good."""

    idle_timeout_secs: float = 3.0
    connect_timeout_secs: float = 10.0
    max_idle: int = 500


class Pool:
    """All connections to one address. `resends` counts the requests that were sent once more."""

    __slots__ = ("_address", "_all", "_closed", "_idle", "_loop", "_options", "_tls", "resends")

    def __init__(self, address: Address, options: PoolOptions, tls: ssl.SSLContext | None = None) -> None:
        self._address = address
        self._options = options
        self._tls = tls or (trusted() if address.tls else None)
        self._loop = asyncio.get_running_loop()
        self._idle: list[UpstreamConnection] = []
        self._all: set[UpstreamConnection] = set()
        self._closed = False
        self.resends = 0

    async def call(self, request: bytes, deadline: float, body: Upload | None = None, content: bytes = b"") -> Reply:
        """Send a request, then `content` or a piped `body`, and wait for the answer's head. Raises UpstreamError."""
        connection = self._take()
        if connection is None:
            connection = await self._connect(deadline)
        try:
            return await connection.send(request, deadline, body, content)
        except LostBeforeAnswer:
            if not connection.reused or body is not None:
                raise
        self.resends += 1
        connection = await self._connect(deadline)
        return await connection.send(request, deadline, content=content)

    async def upgrade(self, request: bytes, deadline: float) -> tuple[UpstreamConnection, Reply]:
        """Ask for another protocol, on a connection of its own. Raises UpstreamError.

        After any answer but a 101 the connection is the pool's, like any other.
        """
        connection = await self._connect(deadline)
        return connection, await connection.upgrade(request, deadline)

    def _take(self) -> UpstreamConnection | None:
        idle = self._idle
        oldest = self._loop.time() - self._options.idle_timeout_secs if self._options.idle_timeout_secs else 0.0
        while idle:
            connection = idle.pop()
            if not connection.broken and connection.idle_since >= oldest:
                connection.reused = True
                return connection
            connection.abort()
        return None

    async def _connect(self, deadline: float) -> UpstreamConnection:
        address = self._address
        wait_secs = self._options.connect_timeout_secs
        if deadline:
            wait_secs = min(wait_secs, max(0.0, deadline - self._loop.time()))
        try:
            async with asyncio.timeout(wait_secs):
                _, connection = await self._loop.create_connection(
                    lambda: UpstreamConnection(self, self._loop),
                    address.host,
                    address.port,
                    ssl=self._tls,
                    server_hostname=address.host if self._tls else None,
                )
        except TimeoutError:
            raise UpstreamTimeout("call_upstream_timeout", "connecting to the worker timed out") from None
        except OSError as error:
            raise unreachable(error) from error
        if not connection.broken:  # it may have come and gone
            self._all.add(connection)
        return connection

    # --- what connections report

    def release(self, connection: UpstreamConnection) -> None:
        if len(self._idle) < self._options.max_idle and not self._closed:
            connection.idle_since = self._loop.time()
            self._idle.append(connection)
        else:
            connection.abort()

    def forget(self, connection: UpstreamConnection) -> None:
        self._all.discard(connection)
        if connection.idle and connection in self._idle:
            self._idle.remove(connection)

    # --- deadlines

    def sweep(self, now: float) -> None:
        """Expire exchanges beyond their deadline and close connections that idled too long."""
        for connection in tuple(self._all):
            connection.expire(now)
        timeout_secs = self._options.idle_timeout_secs
        if timeout_secs:
            for connection in [c for c in self._idle if now - c.idle_since > timeout_secs]:
                connection.abort()

    def close(self) -> None:
        """End every idle connection, and keep none from now on: those with an exchange end with it."""
        self._closed = True
        for connection in tuple(self._idle):
            connection.abort()

    @property
    def busy(self) -> int:
        """Connections that carry an exchange."""
        return len(self._all) - len(self._idle)

    def __len__(self) -> int:
        return len(self._all)
