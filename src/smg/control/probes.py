"""Probes of the gateway itself, and the engine's own information routes passed through to one worker."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from smg.errors import PlacementError
from smg.fleet.registry import Registry
from smg.fleet.worker import Worker, WorkerType
from smg.net.exchange import Exchange
from smg.net.fetch import Fetcher
from smg.net.routes import Handler, Route
from smg.services.readiness import Readiness

_TEXT = b"text/plain; charset=utf-8"
_ALIVE = HTTPStatus.OK.value

# Routes that one worker answers; they may make it generate, so the deadline is a generous one.
_PASSED_ON = ("/health_generate", "/get_server_info", "/get_model_info")
PASS_ON_TIMEOUT_SECS = 30.0


def routes(registry: Registry, readiness: Readiness, fetcher: Fetcher) -> list[Route]:
    """The rows of the route table."""
    return [
        Route("GET", "/liveness", alive),
        Route("GET", "/health", alive),
        Route("GET", "/readiness", _readiness_handler(readiness)),
        *(Route("GET", path, _pass_on(registry, fetcher, path)) for path in _PASSED_ON),
    ]


def alive(exchange: Exchange) -> None:
    """The process is up and its loop turns; whether it has workers is the readiness probe's question."""
    exchange.answer(_ALIVE, b"OK", _TEXT)


def _readiness_handler(readiness: Readiness) -> Handler:
    def handler(exchange: Exchange) -> None:
        exchange.answer(readiness.status, readiness.body)

    return handler


def _pass_on(registry: Registry, fetcher: Fetcher, path: str) -> Handler:
    async def handler(exchange: Exchange) -> None:
        worker = _first(registry.snapshot.ready, ("regular", "prefill"))
        url = worker.base_url + path
        answer = await fetcher.get(url, api_key=worker.api_key, timeout_secs=PASS_ON_TIMEOUT_SECS)
        content_type = answer.headers.get(b"content-type", b"application/json")
        exchange.answer(answer.status, answer.body, content_type)

    return handler


def _first(workers: Sequence[Worker], kinds: Sequence[WorkerType]) -> Worker:
    """The first worker that HTTP reaches, by type in order of preference. Raises PlacementError."""
    for kind in kinds:
        for worker in workers:
            if worker.worker_type == kind and worker.connection_mode == "http" and worker.runtime != "external":
                return worker
    raise PlacementError("no_workers", "no worker is available")
