"""Routes that reach the whole fleet at once: empty the engines' prefix caches, start and stop their profilers.

Every engine is called, ready or not, with its worker's own key: an engine that keeps stale entries, or a profiler that
runs on, must show as a failure rather than be passed over. Ranks of one engine share it and are called once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import msgspec

from smg.engines import engine_of
from smg.errors import UpstreamError
from smg.fleet.registry import Registry
from smg.fleet.worker import Worker
from smg.net.exchange import Exchange
from smg.net.fetch import Fetcher
from smg.net.routes import Route

CALL_TIMEOUT_SECS = 45.0
MAX_CALLS = 32
"""Calls under way at once for one request."""

_QUOTED_BYTES = 200
_GOOD = range(200, 300)

PathOf = Callable[[Worker], str]
Row = dict[str, Any]


@dataclass(slots=True)
class Outcome:
    """What became of the calls: the workers that answered well, and what was wrong with the others."""

    successful: list[str] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)

    @property
    def status(self) -> HTTPStatus:
        """The status to answer with; calls that all failed are a partial success too."""
        return HTTPStatus.PARTIAL_CONTENT if self.failed else HTTPStatus.OK

    @property
    def lists(self) -> Row:
        """The workers one by one, where they do not all belong to the same list."""
        return {"successful": self.successful, "failed": self.failed} if self.failed else {}

    def summary(self, task: str) -> Row:
        """The members that every answer begins with."""
        word = "partial_success" if self.failed else "success"
        return {"status": word, "message": f"{task}: {len(self.successful)} succeeded, {len(self.failed)} failed"}


def routes(registry: Registry, fetcher: Fetcher) -> list[Route]:
    """The rows of the route table."""
    calls = _FleetCalls(registry, fetcher)
    return [
        Route("POST", "/flush_cache", calls.flush_cache, "admin"),
        Route("POST", "/start_profile", calls.start_profile, "admin"),
        Route("POST", "/stop_profile", calls.stop_profile, "admin"),
    ]


class _FleetCalls:
    def __init__(self, registry: Registry, fetcher: Fetcher) -> None:
        self._registry = registry
        self._fetcher = fetcher

    async def flush_cache(self, exchange: Exchange) -> None:
        """Empty every engine's prefix cache, by the route its engine has for that."""
        workers = self._registry.snapshot.workers
        engines = http_engines(workers)
        outcome = await self._call(engines, lambda worker: engine_of(worker.runtime).flush_path, b"")
        body = {
            **outcome.summary("cache flush"),
            "workers_flushed": len(outcome.successful),
            "total_http_workers": len(engines),
            "total_grpc_workers": 0,
            "total_zmq_workers_skipped": len([w for w in workers if w.connection_mode == "zmq"]),
            "total_workers": len(engines),
            **outcome.lists,
        }
        _answer(exchange, outcome.status, body)

    async def start_profile(self, exchange: Exchange) -> None:
        """Start profiling, with the settings of the body."""
        await self._profile(exchange, "profile start", "/start_profile")

    async def stop_profile(self, exchange: Exchange) -> None:
        """Stop profiling."""
        await self._profile(exchange, "profile stop", "/stop_profile")

    async def _profile(self, exchange: Exchange, task: str, path: str) -> None:
        """Call one worker, if the body names its `url`, or all; the rest of the body goes along."""
        body = await exchange.read_body()
        settings = _settings(body)
        if settings is None:
            return _refuse(exchange, HTTPStatus.BAD_REQUEST, "the body must be a JSON object, or empty")
        engines = http_engines(self._registry.snapshot.workers)
        if "url" in settings:
            url = settings.pop("url")
            engines = [worker for worker in engines if url in (worker.url, worker.base_url)]
            body = msgspec.json.encode(settings) if settings else b""
        if not engines:
            return _refuse(exchange, HTTPStatus.NOT_FOUND, "there is no such worker to profile")
        outcome = await self._call(engines, lambda _: path, body)
        counts = {"workers_profiled": len(outcome.successful), "total_workers": len(engines)}
        return _answer(exchange, outcome.status, {**outcome.summary(task), **counts, **outcome.lists})

    async def _call(self, engines: Sequence[Worker], path_of: PathOf, body: bytes) -> Outcome:
        """POST to each of them, some at a time; the outcome is in their order."""
        free = asyncio.Semaphore(MAX_CALLS)

        async def call(worker: Worker) -> str | None:
            async with free:
                return await self._trouble(worker, path_of(worker), body)

        outcome = Outcome()
        for worker, trouble in zip(engines, await asyncio.gather(*map(call, engines)), strict=True):
            if trouble is None:
                outcome.successful.append(worker.base_url)
            else:
                outcome.failed.append({"worker": worker.base_url, "error": trouble})
        return outcome

    async def _trouble(self, worker: Worker, path: str, body: bytes) -> str | None:
        """Call one worker: what went wrong, or None."""
        try:
            answer = await self._fetcher.post(
                worker.base_url + path, body, api_key=worker.api_key, timeout_secs=CALL_TIMEOUT_SECS
            )
        except UpstreamError as error:
            return f"{path}: {error.message}"
        if answer.status in _GOOD:
            return None
        return f"{path}: status {answer.status}: {_quoted(answer.body)}".removesuffix(": ")


def http_engines(workers: Iterable[Worker]) -> list[Worker]:
    """One worker for each engine of our own that HTTP reaches, in the order of registration."""
    engines: dict[str, Worker] = {}
    for worker in workers:
        if worker.connection_mode == "http" and worker.runtime != "external":
            engines.setdefault(worker.base_url, worker)
    return list(engines.values())


def _settings(body: bytes) -> dict[str, Any] | None:
    """The JSON object of a body, empty for an empty one; None if it is something else."""
    if not body:
        return {}
    try:
        settings = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return settings if isinstance(settings, dict) else None


def _quoted(body: bytes) -> str:
    """The beginning of an engine's error, on one line."""
    return " ".join(body[:_QUOTED_BYTES].decode("utf-8", "replace").split())


def _refuse(exchange: Exchange, status: HTTPStatus, message: str) -> None:
    _answer(exchange, status, {"status": "error", "message": message, "workers_profiled": 0, "total_workers": 0})


def _answer(exchange: Exchange, status: HTTPStatus, body: Row) -> None:
    exchange.answer(status.value, msgspec.json.encode(body))
