"""Probes of the gateway itself, and the engine's own information routes passed through to one worker, or to a pair."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from smg.errors import PlacementError, UpstreamError
from smg.fleet.registry import Registry
from smg.fleet.worker import Worker, WorkerType
from smg.net.exchange import Exchange
from smg.net.fetch import Fetched, Fetcher
from smg.net.routes import Handler, Route
from smg.services.readiness import Readiness

_TEXT = b"text/plain; charset=utf-8"
_ALIVE = HTTPStatus.OK.value

# Routes that a worker of the first kind answers, and the one that both halves of a pair must answer. They may make it
# generate, so the deadline is a generous one.
_ABOUT = ("/get_server_info", "/get_model_info")
_GENERATES = "/health_generate"
PASS_ON_TIMEOUT_SECS = 30.0
_GOOD = range(200, 300)


def routes(
    registry: Registry, readiness: Readiness, fetcher: Fetcher, kinds: Sequence[WorkerType] = ("regular",)
) -> list[Route]:
    """The rows of the route table. `kinds` are those that a request takes one worker of each of."""
    return [
        Route("GET", "/liveness", alive),
        Route("GET", "/health", alive),
        Route("GET", "/readiness", _readiness_handler(readiness)),
        Route("GET", _GENERATES, _pass_on(registry, fetcher, _GENERATES, kinds)),
        *(Route("GET", path, _pass_on(registry, fetcher, path, kinds[:1])) for path in _ABOUT),
    ]


def alive(exchange: Exchange) -> None:
    """The process is up and its loop turns; whether it has workers is the readiness probe's question."""
    exchange.answer(_ALIVE, b"OK", _TEXT)


def _readiness_handler(readiness: Readiness) -> Handler:
    def handler(exchange: Exchange) -> None:
        exchange.answer(readiness.status, readiness.body)

    return handler


def _pass_on(registry: Registry, fetcher: Fetcher, path: str, kinds: Sequence[WorkerType]) -> Handler:
    """Ask a worker of each kind; the answer is that of the first who is not well, else the last one's."""

    async def ask(worker: Worker) -> Fetched | UpstreamError:
        try:
            return await fetcher.get(worker.base_url + path, api_key=worker.api_key, timeout_secs=PASS_ON_TIMEOUT_SECS)
        except UpstreamError as error:
            return error

    async def handler(exchange: Exchange) -> None:
        workers = [_first(registry.snapshot.ready, kind) for kind in kinds]
        answers = await asyncio.gather(*map(ask, workers))
        answer = next((answer for answer in answers if answer.status not in _GOOD), answers[-1])
        if isinstance(answer, UpstreamError):
            raise answer
        content_type = answer.headers.get(b"content-type", b"application/json")
        exchange.answer(answer.status, answer.body, content_type)

    return handler


def _first(workers: Sequence[Worker], kind: WorkerType) -> Worker:
    """The first worker of a kind that HTTP reaches, or half an engine if none is whole. Raises PlacementError."""
    kinds: tuple[WorkerType, ...] = ("regular", "prefill") if kind == "regular" else (kind,)
    for accepted in kinds:
        for worker in workers:
            if worker.worker_type == accepted and worker.connection_mode == "http" and worker.runtime != "external":
                return worker
    raise PlacementError("no_workers", f"no {kind} worker is available")
