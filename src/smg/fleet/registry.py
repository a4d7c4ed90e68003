"""The registry: which workers there are, and the one place that changes what is known about them.

Readers take `registry.snapshot` (see `snapshot.py`), which is replaced wholesale when a registration changes; a
status is the worker's own and shows at once. Whoever needs to follow the fleet subscribes and gets one frozen
`Change` after each mutation, with the snapshot already in place.

A worker's `revision` grows when its registration changes (patch, replace), so that a result obtained under
an older one (a health probe, a late replacement) is recognised and dropped. Requests move a worker's
counters without asking the registry. How a worker comes and goes over time is the registrar's business,
what its probes mean the health machine's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from smg.fleet.snapshot import Snapshot, take
from smg.fleet.spec import WorkerPatch, WorkerSpec, apply_patch
from smg.fleet.worker import ModelCard, Status, Worker

ChangeKind = Literal["added", "updated", "status", "removed"]


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to one worker. `old_models` are those it served before, none for a new worker."""

    kind: ChangeKind
    worker: Worker
    old_models: tuple[ModelCard, ...]


Listener = Callable[[Change], None]


class UrlTaken(Exception):  # noqa: N818  it is an answer to the caller, not a fault
    """A URL belongs to a worker already; `registered` is false while that one is still being registered."""

    def __init__(self, url: str, worker_id: str, *, registered: bool) -> None:
        super().__init__(f"{url} belongs to worker {worker_id}")
        self.worker_id = worker_id
        self.registered = registered


class StaleRevision(Exception):  # noqa: N818  the same
    """The worker is not what it was when the change was asked for; nothing was changed."""


# What a replacement takes over; counters, breaker state and load report stay with the worker.
_REGISTERED = (
    "base_url",
    "models",
    "worker_type",
    "connection_mode",
    "http2",
    "runtime",
    "labels",
    "priority",
    "cost",
    "api_key",
    "dp_rank",
    "dp_size",
    "bootstrap_port",
    "statuses",
)


class Registry:
    """The workers of one gateway process. `aliases` are configured ones: alias to canonical model id."""

    def __init__(self, aliases: Mapping[str, str] | None = None) -> None:
        self._configured = dict(aliases or {})
        self._workers: dict[str, Worker] = {}
        self._reserved: dict[str, str] = {}
        self._listeners: list[Listener] = []
        self.snapshot = Snapshot()

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` after each change. It must not change the registry itself."""
        self._listeners.append(listener)

    # --- reservations: an id and a URL are spoken for before the worker exists

    def reserve(self, worker_id: str, url: str) -> None:
        """Speak for a URL. Raises UrlTaken if it is registered, or reserved by another registration."""
        if url in self._reserved:
            raise UrlTaken(url, self._reserved[url], registered=False)
        for worker in self.snapshot.workers:
            if url in {worker.url, worker.base_url}:
                raise UrlTaken(url, worker.id, registered=True)
        self._reserved[url] = worker_id

    def release(self, worker_id: str) -> None:
        """Give up what an id has reserved; harmless if it has not."""
        self._reserved = {url: owner for url, owner in self._reserved.items() if owner != worker_id}

    # --- changes

    def add(self, worker: Worker) -> None:
        """Register a worker, and end its reservation. Raises UrlTaken if another has its URL."""
        known = self.snapshot.by_url.get(worker.url)
        if known is not None:
            raise UrlTaken(worker.url, known.id, registered=True)
        self.release(worker.id)
        worker.models = self._aliased(worker.models)
        self._workers[worker.id] = worker
        self._publish(Change("added", worker, ()))

    def replace(self, worker_id: str, revision: int, fresh: Worker) -> Worker:
        """Register a worker anew under its id; it is then as ready as `fresh`.

        Raises StaleRevision if it is gone, leaving, or was changed since `revision`.
        """
        worker = self._workers.get(worker_id)
        if worker is None or worker.revision != revision or worker.status is Status.DRAINING:
            raise StaleRevision(f"worker {worker_id} is no longer at revision {revision}")
        change = Change("updated", worker, worker.models)
        for name in _REGISTERED:
            setattr(worker, name, getattr(fresh, name))
        if worker.spec is None or fresh.spec is None or worker.spec.resilience != fresh.spec.resilience:
            worker.breaker = fresh.breaker
        worker.spec = fresh.spec
        worker.status = fresh.status
        worker.models = self._aliased(fresh.models)
        worker.revision += 1
        self._publish(change)
        return worker

    def patch(self, worker_id: str, patch: WorkerPatch) -> Worker | None:
        """Change a worker in place; it goes on serving. None if there is no such worker."""
        worker = self._workers.get(worker_id)
        if worker is None:
            return None
        change = Change("updated", worker, worker.models)
        spec = worker.spec = apply_patch(_spec_of(worker), patch)
        worker.priority, worker.cost, worker.api_key = spec.priority, spec.cost, spec.api_key
        worker.labels = {**worker.labels, **(patch.labels or {})}
        worker.revision += 1
        self._publish(change)
        return worker

    def set_status(self, worker_id: str, status: Status, revision: int) -> bool:
        """Move a worker to another status. False, and nothing done, if the revision is stale or it is there
        already.

        A draining worker only leaves.
        """
        worker = self._workers.get(worker_id)
        if worker is None or worker.revision != revision or worker.status in {status, Status.DRAINING}:
            return False
        change = Change("status", worker, worker.models)
        worker.status = status
        if status is not Status.READY:
            worker.overloaded = False  # a report of an engine that was well says nothing now
        self._tell(change)
        return True

    def remove(self, worker_id: str) -> Worker | None:
        """Forget a worker; None if there is no such worker."""
        worker = self._workers.pop(worker_id, None)
        if worker is not None:
            self._publish(Change("removed", worker, worker.models))
        return worker

    def _aliased(self, models: tuple[ModelCard, ...]) -> tuple[ModelCard, ...]:
        """The cards, with the configured aliases of their models added."""
        return tuple(
            replace(card, aliases=tuple(dict.fromkeys([*card.aliases, *self._aliases_of(card.id)]))) for card in models
        )

    def _aliases_of(self, model: str) -> list[str]:
        return [alias for alias, target in self._configured.items() if target == model]

    def _publish(self, change: Change) -> None:
        """Put a snapshot of the changed registrations in place, then tell."""
        last = self.snapshot
        self.snapshot = take(
            self._workers.values(), version=last.version + 1, configured=self._configured, owners=last.aliases
        )
        self._tell(change)

    def _tell(self, change: Change) -> None:
        for listener in self._listeners:
            listener(change)


def _spec_of(worker: Worker) -> WorkerSpec:
    if worker.spec is not None:
        return worker.spec
    return WorkerSpec(url=worker.url, priority=worker.priority, cost=worker.cost, api_key=worker.api_key)
