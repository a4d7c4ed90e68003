"""Calls engines' control routes: one worker and one call, or many with a bounded window.

A control call is none of inference's business, nor the other way round: it has connections and a deadline of its own,
is made once, and touches no breaker, load count, permit or policy. How it travels is the business of `net/calls.py`,
what it leaves in metrics and log that of `accounts.py`; others hear of every finished call through `subscribe`. A
cancelled call ends with its connection, and nobody hears of it.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from smg.control.rl.accounts import Result, result_of
from smg.control.rl.answers import LARGE_BYTES, Answered, Failed, Outcome, answered
from smg.control.rl.kept import Keeper
from smg.control.rl.refusals import Refusal
from smg.errors import UpstreamError, UpstreamTimeout
from smg.fleet.worker import Worker
from smg.net.address import Address, address_of
from smg.net.calls import KEEP_SECS
from smg.net.capture import CallLimits, Captured, Outgoing
from smg.telemetry.logs import get_logger

log = get_logger("smg_rl")

MAX_ANSWER_BYTES: Final = 1 << 20
CONNECT_TIMEOUT_SECS: Final = 10.0
"""For workers that set no time of their own."""

Fields = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class ControlOptions:
    """`timeout_secs` is for one call, from connecting to the last byte; `window` how many a fan-out has in flight."""

    timeout_secs: float = 600.0
    window: int = 32


class ControlRequest(NamedTuple):
    """One request, whichever engines it goes to. `path` has no leading slash, `query` no question mark."""

    method: str
    path: str
    query: str = ""
    fields: Fields = ()
    body: bytes = b""


class Destination(NamedTuple):
    """A worker as control calls reach it while its registration stands. Those that are `alike` get the same bytes."""

    worker: Worker
    address: Address
    alike: tuple[str, str | None]
    limits: CallLimits
    tls: ssl.SSLContext | None

    def __repr__(self) -> str:  # without the worker's key
        return f"Destination({self.worker.url!r})"


@dataclass(frozen=True, slots=True)
class FinishedCall:
    """A control call that has ended. `status` is the engine's, None if no answer came."""

    worker: Worker
    method: str
    path: str
    body: bytes
    result: Result
    status: int | None


Listener = Callable[[FinishedCall], None]
TlsOf = Callable[[Worker], ssl.SSLContext | None]


class Pending(Protocol):
    """A call under way."""

    def cancel(self) -> None:
        """End it; nobody hears of it."""


class Network(Protocol):
    """How calls are made: `net.calls.Calls`."""

    def begin(
        self,
        key: str,
        address: Address,
        request: Outgoing,
        limits: CallLimits,
        ended: Callable[[Captured | UpstreamError], None],
        *,
        http2: bool,
        tls: ssl.SSLContext | None,
    ) -> Pending: ...


class ControlCaller:
    """Calls engines. `tls_of` gives a worker's own certificates, None for the system's."""

    def __init__(self, options: ControlOptions, network: Network, *, tls_of: TlsOf = lambda _worker: None) -> None:
        self.options = options
        self.network = network
        self.tls_of = tls_of
        self.reading = asyncio.Lock()
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> None:
        """Tell `listener` of every call that has ended, before its caller hears of it. It must not wait."""
        self._listeners.append(listener)

    def destination(self, worker: Worker) -> Destination | Failed:
        """How to call a worker; what comes of it at once, if it cannot be called."""
        mode = worker.connection_mode
        if mode != "http":
            reason = f"worker `{worker.url}` speaks {mode}; control calls are for HTTP workers"
            return _failed(worker, "unsupported_connection_mode", reason, connection_mode=mode)
        try:
            address = address_of(worker.base_url)
        except ValueError as error:
            return _unanswered(worker, UpstreamError("call_upstream_request_error", str(error)), 0.0)
        alike = _prefix(worker.base_url), worker.api_key
        return Destination(worker, address, alike, _limits(self.options, worker), self.tls_of(worker))

    async def call_all(
        self,
        destinations: Sequence[Destination | Failed],
        request: ControlRequest,
        keeper: Keeper | None,
        came: Callable[[Outcome], None],
    ) -> None:
        """Call each of them once; a call that ends makes room for the next. `came` hears every outcome as it comes, and
        large answers go to the keeper, if there is one.
        """
        await _Round(self, destinations, request, keeper, came).run()

    async def call(self, worker: Worker, request: ControlRequest) -> Outcome:
        """Call one worker."""
        outcomes: list[Outcome] = []
        await self.call_all([self.destination(worker)], request, None, outcomes.append)
        return outcomes[0]

    def announce(self, outcome: Outcome, request: ControlRequest) -> None:
        """Tell the listeners of a call that has ended."""
        if not self._listeners:
            return
        result = result_of(outcome)
        if result is None:
            return
        status = outcome.status if isinstance(outcome, Answered) else None
        call = FinishedCall(outcome.worker, request.method, request.path, request.body, result, status)
        for listener in self._listeners:
            try:
                listener(call)
            except Exception:  # the engine was called: whoever asked for it must hear so
                log.exception("a listener of control calls failed", worker_id=call.worker.id, path=request.path)


class _Round:
    """One request on its way to some workers.

    Calls are begun and their ends taken by plain calls: a fleet may answer all at once, and a task for each of its
    engines would cost more than the calls do. Only large answers have one, since reading them takes a while.
    """

    __slots__ = (
        "_caller",
        "_came",
        "_done",
        "_keeper",
        "_readers",
        "_request",
        "_sent",
        "_under_way",
        "_waiting",
    )

    def __init__(
        self,
        caller: ControlCaller,
        destinations: Sequence[Destination | Failed],
        request: ControlRequest,
        keeper: Keeper | None,
        came: Callable[[Outcome], None],
    ) -> None:
        self._caller = caller
        self._request = request
        self._keeper = keeper
        self._came = came
        self._waiting: Iterator[Destination | Failed] | None = iter(destinations)
        self._under_way: dict[Worker, Pending] = {}
        self._readers: set[asyncio.Task[None]] = set()
        self._sent: dict[tuple[str, str | None], Outgoing] = {}
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Make all calls. Cancelling ends those under way, and begins no more."""
        try:
            self._begin_some()
            await self._done
        finally:
            self._waiting = None
            for call in self._under_way.values():
                call.cancel()
            for reader in self._readers:
                reader.cancel()

    def _begin_some(self) -> None:
        """Begin calls while there is room in the window; when all have ended, say so."""
        window = self._caller.options.window
        while self._waiting is not None and len(self._under_way) + len(self._readers) < window:
            destination = next(self._waiting, None)
            if destination is None:
                self._waiting = None
            else:
                self._begin(destination)
        if not self._under_way and not self._readers and not self._done.done():
            self._done.set_result(None)

    def _begin(self, destination: Destination | Failed) -> None:
        if isinstance(destination, Failed):
            self._called(destination)
            return
        worker, address, alike, limits, tls = destination
        sent = self._sent.get(alike)
        if sent is None:
            sent = self._sent[alike] = outgoing(worker, self._request)
        ended = partial(self._ended, worker, time.perf_counter())
        self._under_way[worker] = self._caller.network.begin(
            worker.id, address, sent, limits, ended, http2=worker.http2, tls=tls
        )

    def _ended(self, worker: Worker, started_at: float, result: Captured | UpstreamError) -> None:
        try:
            took_secs = time.perf_counter() - started_at
            del self._under_way[worker]
            if isinstance(result, UpstreamError):
                self._called(_unanswered(worker, result, took_secs))
            elif len(result.body) <= LARGE_BYTES:
                self._called(answered(worker, result, took_secs))
            else:
                reader = asyncio.ensure_future(self._read(worker, result, took_secs))
                self._readers.add(reader)
                reader.add_done_callback(self._has_read)
                return
            if self._waiting is not None or not self._under_way:
                self._begin_some()
        except Exception as error:  # noqa: BLE001  the fan-out fails with it, and not the connection that calls this
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if not self._done.done():
            self._done.set_exception(error)

    async def _read(self, worker: Worker, captured: Captured, took_secs: float) -> None:
        """Wrap a large answer. That takes a while and a copy, so one is read and kept at a time, and everybody else has
        a turn in between: a fan-out's answers may all be here at once.
        """
        async with self._caller.reading:
            await asyncio.sleep(0)
            outcome = answered(worker, captured, took_secs)
            if self._keeper is not None:
                outcome = outcome._replace(envelope=await self._keeper.keep(await outcome.text()))
        self._called(outcome)

    def _has_read(self, reader: asyncio.Task[None]) -> None:
        self._readers.discard(reader)
        if reader.cancelled():
            return
        try:
            reader.result()
            self._begin_some()
        except Exception as error:  # noqa: BLE001  as above
            self._fail(error)

    def _called(self, outcome: Outcome) -> None:
        self._came(outcome)
        self._caller.announce(outcome, self._request)


def outgoing(worker: Worker, request: ControlRequest) -> Outgoing:
    """What one worker is sent: the request's own fields, and the worker's key if it has one."""
    target = f"{_prefix(worker.base_url)}/{request.path}" + (f"?{request.query}" if request.query else "")
    fields = [(b"accept", b"*/*")]
    if worker.api_key:
        fields.append((b"authorization", b"Bearer " + worker.api_key.encode()))
    return Outgoing(request.method, target, [*fields, *request.fields], request.body)


def _prefix(base_url: str) -> str:
    """The path that an engine's routes stand behind."""
    return urlsplit(base_url).path


def _limits(options: ControlOptions, worker: Worker) -> CallLimits:
    """What a call to a worker may take; its own settings for connections hold."""
    connect_secs, keep_secs = CONNECT_TIMEOUT_SECS, KEEP_SECS
    if worker.spec is not None:
        own = worker.spec.http_pool
        connect_secs = own.connect_timeout_secs or connect_secs
        keep_secs = min(keep_secs, own.pool_idle_timeout_secs or keep_secs)
        if own.pool_max_idle_per_host == 0:
            keep_secs = 0.0
    return CallLimits(options.timeout_secs, connect_secs, MAX_ANSWER_BYTES, keep_secs)


def _unanswered(worker: Worker, error: UpstreamError, took_secs: float) -> Failed:
    if isinstance(error, UpstreamTimeout):
        message = f"upstream `{worker.url}` timed out: {error.message}"
        return _failed(worker, "upstream_timeout", message, took_secs)
    return _failed(worker, "upstream_unreachable", f"upstream `{worker.url}` unreachable: {error.message}", took_secs)


def _failed(worker: Worker, code: str, message: str, took_secs: float = 0.0, **context: str) -> Failed:
    return Failed(worker, Refusal(code, message, **context), took_secs)
