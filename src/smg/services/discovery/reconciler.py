"""Makes the fleet hold the workers that a source names: what differs becomes jobs of the registrar.

Owned is what was registered from here. Workers that came another way are never touched; an address that one of them has
is left to it, until it leaves. A worker of ours that somebody removes by hand, or whose registration failed, comes back
with the next pass, for the source still names it.

A worker that is taken out drains first and keeps its address meanwhile; who is to have the address next waits for that.
An engine whose data-parallel ranks are workers of their own is one registration: its ranks come and go together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from smg.engines.labels import describe_model
from smg.fleet.registry import Change, Registry, UrlTaken
from smg.fleet.spec import WorkerSpec
from smg.fleet.worker import Worker
from smg.services.discovery.desired import Desired
from smg.services.discovery.difference import Difference, Owned, difference, distinct
from smg.services.jobs import JobQueue, QueueFull
from smg.services.registrar import Registrar
from smg.telemetry.logs import get_logger
from smg.telemetry.metrics import Metrics

log = get_logger("smg.services.discovery")


class Reconciler:
    """The workers of one source. `ring` is called when the fleet changed in a way that a pass should look at.

    `in_place` says whether a registration can be replaced. If not, a changed worker is taken out and added anew, and
    the name that an engine gives its model cannot become an alias of another.
    """

    def __init__(
        self,
        source: str,
        registry: Registry,
        registrar: Registrar,
        jobs: JobQueue,
        metrics: Metrics,
        ring: Callable[[], None],
        *,
        in_place: bool = True,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.source = source
        self._registry = registry
        self._registrar = registrar
        self._jobs = jobs
        self._ring = ring
        self._in_place = in_place
        self._now = now
        self._owned: dict[str, Owned] = {}
        self._keys: dict[str, str] = {}
        self._leaving: dict[str, str] = {}
        self._foreign: dict[str, str] = {}
        self._registrations = metrics.discovery_registrations
        self._removed = metrics.discovery_deregistrations.labels(source, "reconciled")
        self._seconds = metrics.discovery_sync_duration_seconds.labels(source)
        self._discovered = metrics.discovery_workers_discovered.labels(source)
        registry.subscribe(self._follow)

    def apply(self, desired: Iterable[Desired]) -> None:
        """One pass: begin whatever it takes so that the desired workers, and no others of ours, are there."""
        started = self._now()
        wanted = distinct(desired)
        self._take_stock()
        urls = {one.spec.url for one in wanted.values()}
        self._foreign = {url: owner for url, owner in self._foreign.items() if url in urls}
        self._take(difference(wanted, self._owned, in_place=self._in_place))
        self._discovered.set(len(wanted))
        self._seconds.observe(self._now() - started)

    # --- the steps

    def _take(self, steps: Difference) -> None:
        for key in steps.removes:
            self._remove(key)
        updated = added = 0
        try:
            for key, spec in steps.updates:
                updated += self._update(key, spec)
            for one in steps.adds:
                added += self._add(one)
        except QueueFull as error:
            # What is left is not lost: it still differs at the next pass.
            self._registrations.labels(self.source, "failed").inc()
            log.warning("discovery waits for the job queue", source=self.source, reason=str(error))
        if steps.removes or updated or added:
            counts = {"added": added, "updated": updated, "removed": len(steps.removes)}
            log.info("discovery changes the fleet", source=self.source, **counts)

    def _add(self, one: Desired) -> bool:
        url = one.spec.url
        if url in self._leaving.values():
            return False
        try:
            worker_id = self._registrar.add(one.spec)
        except UrlTaken as taken:
            self._leave_alone(url, taken.worker_id)
            return False
        self._foreign.pop(url, None)
        self._owned[one.key] = Owned(worker_id, one.spec)
        self._keys[url] = one.key
        return True

    def _leave_alone(self, url: str, owner: str) -> None:
        if self._foreign.get(url) != owner:
            self._foreign[url] = owner
            self._registrations.labels(self.source, "duplicate").inc()
            log.warning("discovered address belongs to another worker", source=self.source, worker=url, owner=owner)

    def _update(self, key: str, spec: WorkerSpec) -> bool:
        mine = self._owned[key]
        if not self._registrar.update(mine.worker_id, spec):
            return False
        mine.spec = spec
        return True

    def _remove(self, key: str) -> None:
        mine = self._disown(key)
        leaving = mine.workers or {mine.worker_id}  # the latter is still being registered
        self._leaving.update(dict.fromkeys(leaving, mine.spec.url))
        for worker_id in leaving:
            self._registrar.remove(worker_id)
            if worker_id not in self._registry.snapshot.by_id:
                self._leaving.pop(worker_id, None)
        self._removed.inc()

    # --- what became of them

    def _take_stock(self) -> None:
        """Disown what never came to be, and see which changes failed."""
        registered = self._registry.snapshot.by_id
        for key, mine in list(self._owned.items()):
            worker = registered.get(mine.worker_id)
            if not mine.workers and self._registrar.pending(mine.worker_id) is None:
                self._disown(key)
                self._registrations.labels(self.source, "failed").inc()
            elif worker is not None and worker.spec is not None and self._change_failed(worker):
                mine.spec = worker.spec  # so that it differs from what is desired, and is tried again

    def _change_failed(self, worker: Worker) -> bool:
        job = self._jobs.record(worker.id)
        return job is not None and job.job_type == "UpdateWorker" and job.status == "failed"

    def _disown(self, key: str) -> Owned:
        mine = self._owned.pop(key)
        del self._keys[mine.spec.url]
        return mine

    def _follow(self, change: Change) -> None:
        worker = change.worker
        key = self._keys.get(worker.base_url)
        mine = self._owned[key] if key is not None else None
        if change.kind == "removed":
            self._gone(worker, key, mine)
        elif mine is not None and change.kind == "added" and self._is_ours(worker, mine):
            if not mine.workers:
                self._registrations.labels(self.source, "success").inc()
            mine.workers.add(worker.id)
            self._named(worker, mine)
        elif mine is not None and change.kind == "updated" and worker.id in mine.workers:
            self._named(worker, mine)

    def _is_ours(self, worker: Worker, mine: Owned) -> bool:
        """Whether a new worker came of a registration. Ranks after the first have ids of their own, but nobody else
        can have the address while it is reserved.
        """
        return worker.id == mine.worker_id or self._registrar.pending(mine.worker_id) is not None

    def _gone(self, worker: Worker, key: str | None, mine: Owned | None) -> None:
        """A worker left: ours comes back if it is still desired, and its address is free for who waits for it."""
        waited_for = worker.base_url in self._foreign
        if self._leaving.pop(worker.id, None) is not None:
            waited_for = True
        elif key is not None and mine is not None and worker.id in mine.workers:
            mine.workers.discard(worker.id)
            if not mine.workers:
                self._disown(key)
                waited_for = True
        if waited_for:
            self._ring()

    def _named(self, worker: Worker, mine: Owned) -> None:
        """The engine has said what it calls its model, which may have to become an alias."""
        own_name = describe_model(worker.labels).id if self._in_place else None
        if own_name != mine.own_name:
            mine.own_name = own_name
            self._ring()
