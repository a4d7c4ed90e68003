"""Calls engines' control routes: one worker and one call, or many with a bounded window.

A control call is none of inference's business, nor the other way round: it has a connection and a deadline of its own,
is made once, and touches no breaker, load count, permit or policy. What it leaves in metrics and log is the business of
`accounts.py`; others hear of every finished call through `subscribe`. A cancelled call ends with its connection, and
nobody hears of it.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol
from urllib.parse import urlsplit

from smg.control.rl.accounts import ControlAccounts, Result
from smg.control.rl.answers import LARGE_BYTES, Answered, Failed, Outcome, answered
from smg.control.rl.kept import Keeper
from smg.control.rl.refusals import Refusal
from smg.errors import UpstreamError, UpstreamTimeout
from smg.fleet.worker import Worker
from smg.net.address import Address, address_of
from smg.net.capture import CallLimits, Captured, Outgoing, capture
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


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """One request, whichever engines it goes to. `path` has no leading slash, `query` no question mark."""

    method: str
    path: str
    query: str = ""
    fields: Fields = ()
    body: bytes = b""


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


class Send(Protocol):
    """How a call is made: `net.capture.capture`."""

    async def __call__(
        self, address: Address, request: Outgoing, limits: CallLimits, *, http2: bool, tls: ssl.SSLContext | None
    ) -> Captured: ...


class ControlCaller:
    """Calls engines. `tls_of` gives a worker's own certificates, None for the system's."""

    def __init__(
        self,
        options: ControlOptions,
        accounts: ControlAccounts,
        *,
        tls_of: TlsOf = lambda _worker: None,
        send: Send = capture,
    ) -> None:
        self._options = options
        self._accounts = accounts
        self._tls_of = tls_of
        self._send = send
        self._reading = asyncio.Lock()
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> None:
        """Tell `listener` of every call that has ended, before its caller hears of it. It must not wait."""
        self._listeners.append(listener)

    async def call_all(
        self, workers: Sequence[Worker], request: ControlRequest, keeper: Keeper, outcomes: list[Outcome]
    ) -> None:
        """Call every worker once; a call that ends makes room for the next. Outcomes join the list in the order in
        which they come, and large answers go to the keeper.
        """
        waiting = iter(workers)

        async def call_on() -> None:
            for worker in waiting:
                outcomes.append(await self.call(worker, request, keeper))  # noqa: PERF401  they come one by one

        async with asyncio.TaskGroup() as runners:
            for _ in range(min(self._options.window, len(workers))):
                runners.create_task(call_on())

    async def call(self, worker: Worker, request: ControlRequest, keeper: Keeper | None = None) -> Outcome:
        """Call one worker. A large answer goes to the keeper, if there is one."""
        mode = worker.connection_mode
        if mode != "http":
            return _failed(
                worker,
                "unsupported_connection_mode",
                f"worker `{worker.url}` speaks {mode}; control calls are for HTTP workers",
                connection_mode=mode,
            )
        started = time.perf_counter()
        try:
            captured = await self._capture(worker, request)
        except UpstreamError as error:
            took_secs = time.perf_counter() - started
            outcome: Outcome = _unanswered(worker, error)
        else:
            took_secs = time.perf_counter() - started
            outcome = await self._read(worker, captured, int(took_secs * 1000), keeper)
        self._ended(outcome, request, took_secs)
        return outcome

    async def _capture(self, worker: Worker, request: ControlRequest) -> Captured:
        try:
            address = address_of(worker.base_url)
        except ValueError as error:
            raise UpstreamError("call_upstream_request_error", str(error)) from None
        limits = CallLimits(self._options.timeout_secs, _connect_timeout_secs(worker), MAX_ANSWER_BYTES)
        call = outgoing(worker, request)
        return await self._send(address, call, limits, http2=worker.http2, tls=self._tls_of(worker))

    async def _read(self, worker: Worker, captured: Captured, latency_ms: int, keeper: Keeper | None) -> Answered:
        """Wrap an answer. Reading a large one takes a while and a copy, so one is read and kept at a time, and
        everybody else has a turn in between: a fan-out's answers may all be here at once.
        """
        if len(captured.body) <= LARGE_BYTES:
            return answered(worker, captured, latency_ms)
        async with self._reading:
            await asyncio.sleep(0)
            outcome = answered(worker, captured, latency_ms)
            if keeper is None:
                return outcome
            return replace(outcome, envelope=await keeper.keep(await outcome.text()))

    def _ended(self, outcome: Outcome, request: ControlRequest, took_secs: float) -> None:
        worker = outcome.worker
        result = _result(outcome)
        self._accounts.called(request.path, result, took_secs)
        status = outcome.status if isinstance(outcome, Answered) else None
        call = FinishedCall(worker, request.method, request.path, request.body, result, status)
        for listener in self._listeners:
            try:
                listener(call)
            except Exception:  # the engine was called: whoever asked for it must hear so
                log.exception("a listener of control calls failed", worker_id=worker.id, path=request.path)


def outgoing(worker: Worker, request: ControlRequest) -> Outgoing:
    """What one worker is sent: the request's own fields, and the worker's key if it has one."""
    target = f"{urlsplit(worker.base_url).path}/{request.path}" + (f"?{request.query}" if request.query else "")
    fields = [(b"accept", b"*/*")]
    if worker.api_key:
        fields.append((b"authorization", b"Bearer " + worker.api_key.encode()))
    return Outgoing(request.method, target, [*fields, *request.fields], request.body)


def _connect_timeout_secs(worker: Worker) -> float:
    own = worker.spec.http_pool.connect_timeout_secs if worker.spec is not None else None
    return own or CONNECT_TIMEOUT_SECS


def _unanswered(worker: Worker, error: UpstreamError) -> Failed:
    if isinstance(error, UpstreamTimeout):
        return _failed(worker, "upstream_timeout", f"upstream `{worker.url}` timed out: {error.message}")
    return _failed(worker, "upstream_unreachable", f"upstream `{worker.url}` unreachable: {error.message}")


def _failed(worker: Worker, code: str, message: str, **context: str) -> Failed:
    return Failed(worker, Refusal(code, message, **context))


_RESULTS: Final[dict[str, Result]] = {"upstream_timeout": "timeout", "upstream_unreachable": "unreachable"}


def _result(outcome: Outcome) -> Result:
    if isinstance(outcome, Failed):
        return _RESULTS[outcome.refusal.code]
    return "ok" if outcome.good else "upstream_error"
