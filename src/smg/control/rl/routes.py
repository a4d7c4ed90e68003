"""The routes under /v1/rl: list engines, call one engine's own route, call that of every engine a selector matches.

The engine's path, query and body go through unchanged. Of the caller's headers only the content type and what traces
the request go along: never a credential, since the engine gets its worker's own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from http import HTTPMethod, HTTPStatus
from typing import Final
from urllib.parse import unquote

import msgspec

from smg.control.rl.accounts import ControlAccounts
from smg.control.rl.answers import Answered, Failed, Report
from smg.control.rl.caller import ControlCaller, ControlRequest, Destination
from smg.control.rl.kept import Keeper
from smg.control.rl.refusals import Refusal, RepeatedSelector
from smg.control.rl.rows import discovery_row
from smg.control.rl.targeting import engine_path, engine_query, selector_of, selector_text
from smg.fleet.registry import Registry
from smg.fleet.targets import Target, lasts, ranks_of, selected, targets
from smg.fleet.worker import Worker
from smg.net.exchange import Exchange
from smg.net.routes import Handler, Route
from smg.protocol.selectors import Selector

PROTOCOL_VERSION: Final = 1
"""Of the contract of these routes; it changes with what breaks clients."""

LONGEST_STANDSTILL_SECS: Final = 60.0
"""How long a trainer may take none of a large report."""

_ROOT = "/v1/rl"
_ONE = f"{_ROOT}/workers/{{id}}/engine/{{*path}}"
_ALL = f"{_ROOT}/engine/{{*path}}"
_TEXT = b"text/plain; charset=utf-8"
_JSON = (b"content-type", b"application/json")
_MOST_MEANT = 16
_PASSED_ON = (b"x-request-id", b"traceparent", b"tracestate")


def routes(registry: Registry, caller: ControlCaller, accounts: ControlAccounts) -> list[Route]:
    """The rows of the route table."""
    plane = _ControlPlane(registry, caller, accounts)
    one, every = _waiting(plane.call_one), _waiting(plane.call_all)
    return [
        Route("GET", f"{_ROOT}/workers", _inline(plane.list_all), "admin"),
        Route("GET", f"{_ROOT}/workers/{{id}}", _inline(plane.show), "admin"),
        Route("GET", _ONE, one, "admin"),
        Route("POST", _ONE, one, "admin"),
        Route("GET", _ALL, every, "admin"),
        Route("POST", _ALL, every, "admin"),
    ]


def absent_routes() -> list[Route]:
    """The rows while the control plane is off: there is nothing, which an empty 404 says, whoever asks."""
    methods = [method.value for method in HTTPMethod if method is not HTTPMethod.HEAD]  # which GET serves
    return [
        Route(method, path, _nothing, described=False) for path in (_ROOT, f"{_ROOT}/{{*rest}}") for method in methods
    ]


def _nothing(exchange: Exchange) -> None:
    exchange.relay(HTTPStatus.NOT_FOUND.value, b"", b"")


def _inline(steps: Callable[[Exchange], None]) -> Handler:
    def handler(exchange: Exchange) -> None:
        try:
            steps(exchange)
        except Refusal as refusal:
            _refuse(exchange, refusal)

    return handler


def _waiting(steps: Callable[[Exchange], Awaitable[None]]) -> Handler:
    async def handler(exchange: Exchange) -> None:
        try:
            await steps(exchange)
        except Refusal as refusal:
            _refuse(exchange, refusal)
        except RepeatedSelector:
            exchange.answer(HTTPStatus.BAD_REQUEST.value, b"`selector` may be given once only", _TEXT)

    return handler


def _refuse(exchange: Exchange, refusal: Refusal) -> None:
    exchange.error_code = refusal.code
    exchange.answer(refusal.status, refusal.body)


class _ControlPlane:
    def __init__(self, registry: Registry, caller: ControlCaller, accounts: ControlAccounts) -> None:
        self._registry = registry
        self._caller = caller
        self._accounts = accounts
        self._snapshot = registry.snapshot
        self._known = targets(self._snapshot.workers)
        self._meant: dict[str, list[Destination | Failed]] = {}  # by selector

    def list_all(self, exchange: Exchange) -> None:
        """Every engine, by address."""
        rows = [discovery_row(target) for target in self._targets()]
        body = {"protocol_version": PROTOCOL_VERSION, "workers": rows, "total": len(rows)}
        exchange.answer(HTTPStatus.OK.value, msgspec.json.encode(body))

    def show(self, exchange: Exchange) -> None:
        """The engine of one worker, which may be any of its ranks."""
        worker = self._worker(exchange)
        row = discovery_row(Target(worker, ranks_of(worker, self._registry.snapshot.workers)))
        exchange.answer(HTTPStatus.OK.value, msgspec.json.encode(row))

    async def call_one(self, exchange: Exchange) -> None:
        """One engine's answer in its envelope, under its own status."""
        request = await _request(exchange, engine_path(exchange.params["path"]))
        worker = self._worker(exchange)
        exchange.worker = worker.url
        outcome = await self._caller.call(worker, request)
        self._accounts.called(request.method, request.path, [outcome])
        if not isinstance(outcome, Answered):
            refusal = outcome.refusal
            named = {"worker_id": worker.id, "url": worker.url} | refusal.context
            raise Refusal(refusal.code, refusal.message, **named)
        exchange.answer(outcome.status, await outcome.text())

    async def call_all(self, exchange: Exchange) -> None:
        """A report of what every matching engine answered, when the last one has."""
        started = time.perf_counter()
        text = selector_text(exchange.query)
        selector = selector_of(text)
        request = await _request(exchange, engine_path(exchange.params["path"]))
        destinations = self._selected(text, selector)
        if not destinations:
            self._accounts.nobody_matched(time.perf_counter() - started)
            raise Refusal("no_workers_match", f"no worker matches the selector `{text}`", selector=text)
        report = Report()
        try:
            with closing(Keeper()) as keeper:
                await self._caller.call_all(destinations, request, keeper, report.add)
                self._accounts.fanned_out(request.path, text, report, time.perf_counter() - started)
                await _send(exchange, report)
        finally:
            self._accounts.called(request.method, request.path, report.outcomes)

    def _targets(self) -> list[Target]:
        """All engines; they are the same until the registry has another snapshot."""
        if self._registry.snapshot is not self._snapshot:
            self._snapshot = self._registry.snapshot
            self._known = targets(self._snapshot.workers)
            self._meant.clear()
        return self._known

    def _selected(self, text: str, selector: Selector) -> list[Destination | Failed]:
        """Whom a selector means. A trainer calls the same engines again and again."""
        engines = self._targets()
        destinations = self._meant.get(text)
        if destinations is None:
            destinations = [self._caller.destination(worker) for worker in selected(engines, selector)]
            if lasts(selector):
                if len(self._meant) >= _MOST_MEANT:
                    self._meant.clear()
                self._meant[text] = destinations
        return destinations

    def _worker(self, exchange: Exchange) -> Worker:
        worker_id = unquote(exchange.params["id"])
        worker = self._registry.snapshot.by_id.get(worker_id)
        if worker is None:
            raise Refusal("worker_not_found", f"there is no worker `{worker_id}`", id=worker_id)
        return worker


async def _send(exchange: Exchange, report: Report) -> None:
    """Answer with a report; a large one is sent as fast as the client takes it, and never lies in memory as a whole.

    A client that takes nothing for long is cut off.
    """
    whole = report.whole()
    if whole is not None:
        exchange.answer(report.status, whole)
        return
    exchange.start(report.status, b"application/json")
    try:
        async for piece in report.pieces():
            exchange.write(piece)
            async with asyncio.timeout(LONGEST_STANDSTILL_SECS):
                await exchange.drain()
    except TimeoutError:
        exchange.abort()
    else:
        exchange.end()


async def _request(exchange: Exchange, path: str) -> ControlRequest:
    """What the engines get, once it is all here."""
    body = await exchange.read_body()
    headers = exchange.headers
    fields = [(name, headers[name]) for name in _PASSED_ON if name in headers]
    content_type = headers.get(b"content-type")
    if content_type is not None:
        fields.append((b"content-type", content_type))
    elif body:
        fields.append(_JSON)
    return ControlRequest(exchange.method, path, engine_query(exchange.query), fields, body)
