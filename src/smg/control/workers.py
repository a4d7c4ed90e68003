"""The worker API: list, read, add, change, replace and remove workers.

What contacts an engine is a job of the registrar's, so its request is answered as soon as it is accepted.
Errors are `{"error", "code"}`, with a sentence and one of the codes below.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qs
from uuid import UUID

import msgspec

from smg.control.rows import Row, pending_row, worker_row
from smg.fleet.registry import Registry, UrlTaken
from smg.fleet.spec import SpecError, parse_patch, parse_spec
from smg.net.exchange import Exchange
from smg.net.routes import Handler, Route
from smg.services.jobs import JobQueue, QueueFull
from smg.services.registrar import Registrar


class _Answer(NamedTuple):
    body: Row
    status: HTTPStatus = HTTPStatus.OK
    headers: tuple[tuple[bytes, bytes], ...] = ()


class _Refusal(Exception):  # noqa: N818  it is an answer
    def __init__(self, status: HTTPStatus, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def _not_found(worker_id: str) -> _Refusal:
    return _Refusal(HTTPStatus.NOT_FOUND, "WORKER_NOT_FOUND", f"Worker {worker_id} not found")


def _refusal(error: Exception) -> _Refusal:
    match error:
        case _Refusal():
            return error
        case SpecError():
            return _Refusal(HTTPStatus.BAD_REQUEST, "BAD_REQUEST", str(error))
        case UrlTaken(registered=True):
            return _Refusal(HTTPStatus.CONFLICT, "WORKER_ALREADY_EXISTS", str(error))
        case UrlTaken():
            return _Refusal(HTTPStatus.CONFLICT, "WORKER_CREATE_IN_PROGRESS", str(error))
        case _:
            return _Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "INTERNAL_SERVER_ERROR", str(error))


_REFUSING = (_Refusal, SpecError, UrlTaken, QueueFull)


def routes(registry: Registry, registrar: Registrar, jobs: JobQueue) -> list[Route]:
    """The rows of the route table."""
    api = _WorkerApi(registry, registrar, jobs)
    return [
        Route("GET", "/workers", _inline(api.list_all), "admin"),
        Route("POST", "/workers", _waiting(api.add), "admin"),
        Route("GET", "/workers/{id}", _inline(api.show), "admin"),
        Route("PATCH", "/workers/{id}", _waiting(api.patch), "admin"),
        Route("PUT", "/workers/{id}", _waiting(api.replace), "admin"),
        Route("DELETE", "/workers/{id}", _inline(api.remove), "admin"),
    ]


def _inline(steps: Callable[[Exchange], _Answer]) -> Handler:
    def handler(exchange: Exchange) -> None:
        try:
            _send(exchange, steps(exchange))
        except _REFUSING as error:
            _refuse(exchange, _refusal(error))

    return handler


def _waiting(steps: Callable[[Exchange], Coroutine[Any, Any, _Answer]]) -> Handler:
    async def handler(exchange: Exchange) -> None:
        try:
            _send(exchange, await steps(exchange))
        except _REFUSING as error:
            _refuse(exchange, _refusal(error))

    return handler


def _send(exchange: Exchange, answer: _Answer) -> None:
    exchange.answer(answer.status.value, msgspec.json.encode(answer.body), headers=answer.headers)


def _refuse(exchange: Exchange, refusal: _Refusal) -> None:
    _send(exchange, _Answer({"error": str(refusal), "code": refusal.code}, refusal.status))


class _WorkerApi:
    def __init__(self, registry: Registry, registrar: Registrar, jobs: JobQueue) -> None:
        self._registry = registry
        self._registrar = registrar
        self._jobs = jobs

    def list_all(self, exchange: Exchange) -> _Answer:
        """Every registered worker, or those that serve `?model=`, which may be an alias."""
        snapshot = self._registry.snapshot
        names = parse_qs(exchange.query, keep_blank_values=True).get("model")
        workers = snapshot.serving(snapshot.resolve(names[0])) if names else snapshot.workers
        kinds = [worker.worker_type for worker in workers]
        return _Answer(
            {
                "workers": [worker_row(worker) for worker in workers],
                "total": len(workers),
                "stats": {f"{kind}_count": kinds.count(kind) for kind in ("prefill", "decode", "regular")},
            }
        )

    def show(self, exchange: Exchange) -> _Answer:
        """One worker, with its job while it has one."""
        worker_id = _worker_id(exchange)
        job = self._jobs.record(worker_id)
        worker = self._registry.snapshot.by_id.get(worker_id)
        if worker is not None:
            return _Answer(worker_row(worker, job))
        spec = self._registrar.pending(worker_id)
        if spec is None:
            raise _not_found(worker_id)
        return _Answer(pending_row(worker_id, spec, job))

    async def add(self, exchange: Exchange) -> _Answer:
        """Queue a registration; the worker's id is known at once."""
        spec = parse_spec(await _json_body(exchange))
        worker_id = self._registrar.add(spec)
        location = f"/workers/{worker_id}"
        body = {
            "status": "accepted",
            "worker_id": worker_id,
            "url": spec.url,
            "location": location,
            "message": "Worker addition queued for background processing",
        }
        return _Answer(body, HTTPStatus.ACCEPTED, ((b"location", location.encode()),))

    async def patch(self, exchange: Exchange) -> _Answer:
        """Change what may change in place."""
        worker_id = _worker_id(exchange)
        patch = parse_patch(await _json_body(exchange))
        return _accepted(worker_id, "update", known=self._registrar.patch(worker_id, patch))

    async def replace(self, exchange: Exchange) -> _Answer:
        """Queue a registration with a new spec in place of the old one."""
        worker_id = _worker_id(exchange)
        spec = parse_spec(await _json_body(exchange))
        return _accepted(worker_id, "update", known=self._registrar.update(worker_id, spec))

    def remove(self, exchange: Exchange) -> _Answer:
        """Begin to take a worker out."""
        worker_id = _worker_id(exchange)
        return _accepted(worker_id, "removal", known=self._registrar.remove(worker_id))


def _accepted(worker_id: str, what: str, *, known: bool) -> _Answer:
    if not known:
        raise _not_found(worker_id)
    message = f"Worker {what} queued for background processing"
    return _Answer({"status": "accepted", "worker_id": worker_id, "message": message}, HTTPStatus.ACCEPTED)


def _worker_id(exchange: Exchange) -> str:
    text = exchange.params["id"]
    try:
        return str(UUID(text))
    except ValueError:
        raise _Refusal(HTTPStatus.BAD_REQUEST, "BAD_REQUEST", f"{text!r} is no worker id (a UUID)") from None


async def _json_body(exchange: Exchange) -> bytes:
    media_type = exchange.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if media_type != b"application/json" and not media_type.endswith(b"+json"):
        raise _Refusal(HTTPStatus.BAD_REQUEST, "BAD_REQUEST", "Content-Type must be application/json")
    return await exchange.read_body()
