"""HTTP/2 connections to one worker address: as few as carry all streams, and a queue for what they cannot carry.

Calls share the first connection that has room. When none has, one more is opened, one at a time, for all who wait; at
the bound they wait for a stream to end. A call that crossed the end of a connection, or that the worker turned away
unseen, is sent once more, and never again.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from functools import cache

from smg.errors import UpstreamError, UpstreamTimeout, once_more
from smg.net.address import Address
from smg.net.body import Upload
from smg.net.http1.client import LostBeforeAnswer
from smg.net.http1.pool import PoolOptions, unreachable
from smg.net.http2.connection import Connection, StreamLimits
from smg.net.http2.failures import NeverSent
from smg.net.http2.fields import Fields
from smg.net.reply import Reply

ALPN = ("h2", "http/1.1")


@cache
def _trusted() -> ssl.SSLContext:
    """The system's certificates, and the protocols we speak."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(list(ALPN))
    return context


class Http2Pool:
    """All connections to one address; the same door as `http1/pool.py`'s, with a header list for a head.

    Of `options`, `max_idle` counts connections. `tls` replaces the system's certificates, and must offer `ALPN`.
    `resends` counts the requests that were sent once more.
    """

    __slots__ = (
        "_address",
        "_all",
        "_closed",
        "_connecting",
        "_limits",
        "_loop",
        "_options",
        "_tls",
        "_waiting",
        "resends",
    )

    def __init__(
        self,
        address: Address,
        options: PoolOptions,
        tls: ssl.SSLContext | None = None,
        limits: StreamLimits | None = None,
    ) -> None:
        self._address = address
        self._options = options
        self._limits = limits or StreamLimits()
        self._tls = tls or (_trusted() if address.tls else None)
        self._loop = asyncio.get_running_loop()
        self._all: list[Connection] = []
        self._waiting: deque[tuple[asyncio.Future[Connection], float]] = deque()
        self._connecting: asyncio.Task[Connection] | None = None
        self._closed = False
        self.resends = 0

    async def call(self, fields: Fields, deadline: float, body: Upload | None = None, content: bytes = b"") -> Reply:
        """Send a request, then `content` or a piped `body`, and wait for the answer's head.

        `fields` begin with the pseudo-headers, in lower case. Raises NotHttp2 if the worker does not speak it, and
        UpstreamError.
        """
        connection = self._pick() or await self._wait(deadline)
        try:
            return await connection.send(fields, deadline, body, content)
        except LostBeforeAnswer as error:
            if body is not None and not isinstance(error, NeverSent):
                raise
        self.resends += 1
        for other in self._all:
            if other.idle:
                other.retire()  # as old as the one that was lost: it would go the same way
        connection = self._pick() or await self._wait(deadline)
        return await connection.send(fields, deadline, body, content)

    # --- finding a connection

    def _pick(self) -> Connection | None:
        """The first connection with room, so that surplus ones empty and grow old."""
        timeout_secs = self._options.idle_timeout_secs
        oldest = self._loop.time() - timeout_secs if timeout_secs else 0.0
        for connection in self._all:
            if connection.room <= 0:
                continue
            if not connection.idle or connection.idle_since >= oldest:
                return connection
            connection.retire()
        return None

    async def _wait(self, deadline: float) -> Connection:
        waiter: asyncio.Future[Connection] = self._loop.create_future()
        self._waiting.append((waiter, deadline))
        self._connect()
        try:
            connection = await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                waiter.result().claimed -= 1
                self.freed(waiter.result())
            del waiter  # it keeps the exception, whose traceback keeps this frame
            raise
        connection.claimed -= 1
        return connection

    def _connect(self) -> None:
        """Open one more connection, if somebody waits for it."""
        if self._connecting is None and self._is_awaited() and len(self._all) < self._limits.connections:
            self._connecting = self._loop.create_task(self._open())
            self._connecting.add_done_callback(self._connected)

    def _is_awaited(self) -> bool:
        while self._waiting and self._waiting[0][0].done():
            self._waiting.popleft()
        return bool(self._waiting)

    async def _open(self) -> Connection:
        address = self._address
        connection = Connection(self, self._loop, self._limits)
        try:
            async with asyncio.timeout(self._options.connect_timeout_secs):
                await self._loop.create_connection(
                    lambda: connection,
                    address.host,
                    address.port,
                    ssl=self._tls,
                    server_hostname=address.host if self._tls else None,
                )
                await connection.ready
        except TimeoutError:
            connection.cut()
            raise UpstreamTimeout("call_upstream_timeout", "connecting to the worker timed out") from None
        except OSError as error:
            raise unreachable(error) from error
        except BaseException:
            connection.cut()
            raise
        return connection

    def _connected(self, opening: asyncio.Task[Connection]) -> None:
        self._connecting = None
        error = None if opening.cancelled() else opening.exception()
        if opening.cancelled() or error is not None:
            self._fail_waiting(error)
            return
        connection = opening.result()
        if not connection.broken:
            self._all.append(connection)
        had_room = connection.room > 0
        self.freed(connection)
        if had_room:
            self._connect()

    def _fail_waiting(self, error: BaseException | None) -> None:
        while self._waiting:
            waiter, _ = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(_copy(error))

    # --- what connections report

    def freed(self, connection: Connection) -> None:
        while self._is_awaited():
            free = self._pick()
            if free is None:
                break
            free.claimed += 1
            self._waiting.popleft()[0].set_result(free)
        if connection.idle and not connection.broken and (self._closed or self._surplus()):
            connection.retire()

    def forget(self, connection: Connection) -> None:
        if connection in self._all:
            self._all.remove(connection)
        self._connect()

    def _surplus(self) -> bool:
        return sum([connection.idle and not connection.broken for connection in self._all]) > self._options.max_idle

    # --- deadlines

    def sweep(self, now: float) -> None:
        """Expire exchanges and waits beyond their deadline, and close connections that idled too long."""
        for connection in tuple(self._all):
            connection.sweep(now)
            timeout_secs = self._options.idle_timeout_secs
            if timeout_secs and connection.idle and now - connection.idle_since > timeout_secs:
                connection.retire()
        for waiter, deadline in self._waiting:
            if deadline and now > deadline and not waiter.done():
                waiter.set_exception(
                    UpstreamTimeout("call_upstream_timeout", "no connection to the worker was free in time")
                )
        self._waiting = deque([entry for entry in self._waiting if not entry[0].done()])

    def close(self) -> None:
        """End every idle connection, and keep none from now on: those with streams end with the last of them."""
        self._closed = True
        for connection in tuple(self._all):
            connection.retire()
        if self._connecting is not None and not self._is_awaited():
            self._connecting.cancel()

    @property
    def busy(self) -> int:
        """Connections that carry an exchange, or are opened for one."""
        return sum([not connection.idle for connection in self._all]) + (self._connecting is not None)

    def __len__(self) -> int:
        return len(self._all) + (self._connecting is not None)


def _copy(error: BaseException | None) -> UpstreamError:
    """The same error for one more of those who waited for a connection."""
    if isinstance(error, UpstreamError):
        return once_more(error)
    reason = type(error).__name__ if error is not None else "given up"
    return UpstreamError("call_upstream_connection_failed", f"could not connect to the worker: {reason}")
