"""Calls to engines that are made once, and whose answers are told whole: the way of control calls.

They have connections of their own, so that no inference can stand in their way, and one deadline over all of a call,
from connecting to the last byte. Engines are often called several times in a row, so a connection is kept for a moment
behind its call. A call on a kept connection is sent once as well, whatever becomes of it: if an engine ends the
connection in the same instant, nobody can tell whether it has read the request. That is why they are kept for far less
time than engines keep theirs, looked at again before they are used, and not kept at all where an engine was quicker.

In HTTP/1.1 a call has no task, no future and no timer of its own once it is connected. One in HTTP/2 has a connection
and a task.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Callable

from smg.errors import UpstreamError, UpstreamTimeout
from smg.net.address import Address
from smg.net.capture import CallLimits, Captured, Outgoing, capture_in_http2, http1_head
from smg.net.http1.call import CallConnection
from smg.net.http1.peer import Silence
from smg.net.http1.pool import trusted, unreachable
from smg.net.http2.failures import NotHttp2
from smg.net.sweep import Sweeper, interval_for
from smg.telemetry.logs import get_logger

log = get_logger("smg.net")

KEEP_SECS = 3.0
"""How long connections may be kept. Servers of engines keep idle ones for longer: uvicorn for five seconds."""
MOST_KEPT = 2
"""Of one worker."""
SHUN_SECS = 60.0
"""For how long nothing is kept to an engine that has ended a kept connection early."""

# Below this a copy is cheaper than a second buffer for the kernel.
_JOIN_BYTES = 16 * 1024
_SWEEP_SECS = interval_for(KEEP_SECS)

Ended = Callable[[Captured | UpstreamError], None]


class PendingCall:
    """One call under way."""

    __slots__ = ("_calls", "_ended", "_task", "connect_by", "connection", "deadline", "limits", "request")

    def __init__(self, calls: Calls, request: Outgoing, limits: CallLimits, deadline: float, ended: Ended) -> None:
        self._calls = calls
        self._ended = ended
        self._task: asyncio.Task[None] | None = None
        self.request = request
        self.limits = limits
        self.deadline = deadline
        self.connect_by = math.inf
        self.connection: KeptConnection | None = None

    @property
    def due(self) -> float:
        """When the call is to end if nothing happens, on the loop's clock."""
        return min(self.deadline, self.connect_by)

    def cancel(self) -> None:
        """End the call and its connection; nobody hears of it. Harmless if it has ended."""
        if self._calls.end(self):
            self._stop()

    def expire(self) -> None:
        """End the call because its time is over."""
        self._stop()
        if self.connect_by < self.deadline:
            self.failed(_connected_too_late())
        else:
            self.failed(UpstreamTimeout("call_upstream_timeout", f"no answer within {self.limits.timeout_secs:g} s"))

    def run(self, task: asyncio.Task[None]) -> None:
        """A task works for the call as long as it has no connection."""
        self._task = task

    def send(self, connection: KeptConnection) -> None:
        """Ask on this connection."""
        self._task = None
        self.connect_by = math.inf
        self.connection = connection
        request, limits = self.request, self.limits
        connection.keep_secs = limits.keep_secs
        head = http1_head(connection.address, request, keep=limits.keep_secs > 0)
        body, content = (request.body, b"") if len(request.body) <= _JOIN_BYTES else (b"", request.body)
        wants_body = request.method != "HEAD"
        connection.ask(self, head + body, content, max_bytes=limits.max_bytes, wants_body=wants_body)

    def answered(self, captured: Captured) -> None:
        if self._calls.end(self):
            self._ended(captured)

    def failed(self, error: UpstreamError) -> None:
        if self._calls.end(self):
            self._ended(error)

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        elif self.connection is not None:
            self.connection.abort()


class KeptConnection(CallConnection):
    """A connection, and for whom it is kept how long; `until` is on the loop's clock."""

    __slots__ = ("address", "keep_secs", "key", "silence", "tls", "until")

    def __init__(self, owner: Calls, key: str, address: Address, tls: ssl.SSLContext | None) -> None:
        super().__init__(owner)
        self.key = key
        self.address = address
        self.tls = tls
        self.keep_secs = 0.0
        self.until = 0.0
        self.silence: Silence | None = None


class Calls:
    """All calls of one kind, and the connections that are kept for them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._under_way: dict[PendingCall, None] = {}
        self._kept: dict[str, list[KeptConnection]] = {}
        self._shunned: dict[str, float] = {}
        self._sweeper = Sweeper(self._loop, _SWEEP_SECS)
        self._timer: asyncio.TimerHandle | None = None
        self._due = math.inf
        self._closed = False

    # --- making calls

    def begin(
        self,
        key: str,
        address: Address,
        request: Outgoing,
        limits: CallLimits,
        ended: Ended,
        *,
        http2: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> PendingCall:
        """Send a request to the worker that `key` stands for. `ended` hears what came of it, later and once: the
        answer, of which a HEAD's has no body, or what went wrong, which is an UpstreamTimeout when connecting or the
        whole call took too long.

        With `http2` the engine is spoken to in HTTP/2 if it does speak it. `tls` replaces the system's certificates for
        an https address.
        """
        call = PendingCall(self, request, limits, self._loop.time() + limits.timeout_secs, ended)
        self._under_way[call] = None
        self._wake_by(call.deadline)
        connection = None if http2 else self._take(key, address, tls)
        if connection is not None:
            call.send(connection)
        else:
            call.run(self._loop.create_task(self._reach(call, key, address, tls, http2=http2)))
        return call

    def end(self, call: PendingCall) -> bool:
        """A call is over; false if it was already."""
        if call not in self._under_way:
            return False
        del self._under_way[call]
        return True

    async def _reach(
        self, call: PendingCall, key: str, address: Address, tls: ssl.SSLContext | None, *, http2: bool
    ) -> None:
        """Do for a call whatever has to be waited for."""
        try:
            if http2:
                try:
                    call.answered(await capture_in_http2(address, call.request, call.limits, tls))
                except NotHttp2:
                    pass  # nothing of the request has been sent
                else:
                    return
            call.connect_by = self._loop.time() + call.limits.connect_timeout_secs
            self._wake_by(call.due)
            call.send(await self._connect(KeptConnection(self, key, address, tls)))
        except UpstreamError as error:
            call.failed(error)
        except UnicodeError:  # of a host name that cannot be looked up
            call.failed(UpstreamError("call_upstream_request_error", "the address is not valid"))
        except Exception as error:  # whatever it is, somebody waits for the call
            log.exception("a call failed in the gateway", host=address.host)
            call.failed(UpstreamError("call_upstream_request_error", type(error).__name__))

    async def _connect(self, connection: KeptConnection) -> KeptConnection:
        address = connection.address
        tls = connection.tls or (trusted() if address.tls else None)
        try:
            await self._loop.create_connection(
                lambda: connection,
                address.host,
                address.port,
                ssl=tls,
                server_hostname=address.host if tls else None,
            )
        except TimeoutError:  # the system's, which may be shorter than ours
            raise _connected_too_late() from None
        except OSError as error:
            raise unreachable(error) from error
        return connection

    # --- keeping connections

    def _take(self, key: str, address: Address, tls: ssl.SSLContext | None) -> KeptConnection | None:
        kept = self._kept.get(key)
        while kept:
            connection = kept.pop()
            if (
                connection.until >= self._loop.time()
                and (connection.address is address or connection.address == address)
                and connection.tls is tls
                and connection.silence is not None
                and not connection.silence.broken()
            ):
                return connection
            connection.abort()
        return None

    def release(self, connection: CallConnection) -> None:
        assert isinstance(connection, KeptConnection)
        kept = self._kept.get(connection.key)
        if kept is None:
            kept = self._kept[connection.key] = []
            self._sweeper.add(self)  # until nothing is kept any more
        if self._closed or not connection.keep_secs or len(kept) >= MOST_KEPT or connection.key in self._shunned:
            connection.abort()
            return
        connection.until = self._loop.time() + connection.keep_secs
        connection.silence = connection.silence or Silence(connection.transport)
        kept.append(connection)

    def forget(self, connection: CallConnection) -> None:
        assert isinstance(connection, KeptConnection)
        kept = self._kept.get(connection.key, [])
        if connection in kept:
            kept.remove(connection)
            self._shunned[connection.key] = self._loop.time() + SHUN_SECS

    def drop(self, key: str) -> None:
        """Nothing is kept for a worker any more, until it is called again."""
        for connection in self._kept.pop(key, ()):
            connection.abort()

    def close(self) -> None:
        """Keep nothing from now on. Calls can still be made."""
        self._closed = True
        for key in tuple(self._kept):
            self.drop(key)

    @property
    def kept(self) -> int:
        """How many connections are kept at the moment."""
        return sum(map(len, self._kept.values()))

    # --- deadlines

    def sweep(self, now: float) -> None:
        """End connections that were kept long enough."""
        for kept in self._kept.values():
            for connection in [connection for connection in kept if connection.until < now]:
                kept.remove(connection)
                connection.abort()
        self._kept = {key: kept for key, kept in self._kept.items() if kept}
        self._shunned = {key: until for key, until in self._shunned.items() if until > now}
        if not self._kept and not self._shunned:
            self._sweeper.discard(self)

    def _wake_by(self, due: float) -> None:
        """See to what is due at that time, at the latest."""
        if due >= self._due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_at(due, self._expire)

    def _expire(self) -> None:
        """End the calls whose time is over, and wake again for the next one."""
        self._timer, self._due = None, math.inf
        now = self._loop.time()
        for call in [call for call in self._under_way if call.due <= now]:
            call.expire()
        if self._under_way:
            self._wake_by(min([call.due for call in self._under_way]))


def _connected_too_late() -> UpstreamTimeout:
    return UpstreamTimeout("call_upstream_timeout", "connecting to the worker timed out")
