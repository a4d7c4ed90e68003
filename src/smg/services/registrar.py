"""How workers come, change and go: the jobs behind the worker API and behind the workers named at start-up.

    add      wait until the engine answers, ask it about itself, register it ready; one that connects to us by itself
             is registered at once, and pending until it does
    update   the same with a new spec, in place of the old registration, unless that changed meanwhile
    patch    change priority, cost, labels, key and health settings in place, at once
    remove   a ready worker drains for its settle window and is then gone, any other is gone at once; a
             registration under way ends for good

An engine is contacted through `inspection.py`; what the registry holds is changed by nothing but these jobs
and the health prober.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

import msgspec

from smg.fleet.address import parse_address
from smg.fleet.breaker import Breaker
from smg.fleet.cards import model_cards
from smg.fleet.health import HealthOptions, health_options
from smg.fleet.registry import Registry, StaleRevision, UrlTaken
from smg.fleet.spec import SpecError, WorkerPatch, WorkerSpec, apply_patch, checked_spec
from smg.fleet.statuses import status_rules
from smg.fleet.worker import ConnectionMode, Status, Worker
from smg.services.inspection import Inspection, Inspector, known_runtime
from smg.services.jobs import JobFailed, JobQueue, JobType, QueueFull, Work
from smg.telemetry.logs import get_logger

log = get_logger("smg.services.registrar")

# The engine whose requests can name a data-parallel rank.
DP_RUNTIME = "sglang"
# More than any engine has: what it says of itself is not trusted to be sane.
MAX_RANKS = 1024
# Engines that connect to the gateway: only they can tell that they are there.
CONNECT_THEMSELVES: frozenset[ConnectionMode] = frozenset({"zmq"})


@dataclass(frozen=True, slots=True)
class RegistrarOptions:
    """How long an engine may take to come up, how often it is looked at, and how long to wait before that."""

    startup_timeout_secs: float = 1800.0
    startup_check_interval_secs: float = 30.0
    startup_delay_secs: float = 0.0
    dp_aware: bool = False


def new_worker_id() -> str:
    """A UUID of version 7: ids sort by the time they were given out."""
    stamp = (time.time_ns() // 1_000_000) & 0xFFFF_FFFF_FFFF
    noise = int.from_bytes(os.urandom(10), "big")
    version, variant = 0x7 << 76, 0x2 << 62
    random_bits = (noise & 0x0FFF_3FFF_FFFF_FFFF_FFFF) | version | variant
    return str(UUID(int=stamp << 80 | random_bits))


class Registrar:
    """Registers, changes and removes workers."""

    def __init__(
        self,
        registry: Registry,
        jobs: JobQueue,
        inspector: Inspector,
        new_breaker: Callable[[WorkerSpec], Breaker],
        *,
        options: RegistrarOptions,
        health: HealthOptions,
        choose_http2: Callable[[WorkerSpec], Awaitable[bool]] | None = None,
        new_id: Callable[[], str] = new_worker_id,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._registry = registry
        self._jobs = jobs
        self._inspector = inspector
        self._new_breaker = new_breaker
        self._options = options
        self._health = health
        self._choose_http2 = choose_http2
        self._new_id = new_id
        self._now = now
        self._sleep = sleep
        self._pending: dict[str, WorkerSpec] = {}

    def pending(self, worker_id: str) -> WorkerSpec | None:
        """The spec of a worker that is being registered for the first time."""
        return self._pending.get(worker_id)

    def add(self, spec: WorkerSpec) -> str:
        """Begin a registration; returns the worker's id. Raises UrlTaken and QueueFull."""
        return self._begin(spec, self._jobs.submit)

    def add_specs(self, specs: Iterable[WorkerSpec]) -> None:
        """Begin to register the workers named at start-up, all at once. Raises SpecError for a URL that is none."""
        for spec in map(checked_spec, specs):
            try:
                self._begin(spec, self._jobs.submit_beside)
            except UrlTaken:
                log.warning("worker named twice", worker=spec.url)

    def update(self, worker_id: str, spec: WorkerSpec) -> bool:
        """Begin to register a worker anew; False if there is none. Raises SpecError and QueueFull."""
        if self._options.dp_aware:
            raise SpecError("url: a worker cannot be replaced while data-parallel ranks are workers of their own")
        waiting = self._pending.get(worker_id)
        if waiting is not None:
            _check_same_url(waiting.url, spec.url)
            self._pending[worker_id] = spec
            return True
        worker = self._registry.snapshot.by_id.get(worker_id)
        if worker is None or worker.status is Status.DRAINING:
            return False
        _check_same_url(worker.url, spec.url)
        work = partial(self._replace, worker_id, worker.revision, spec)
        self._jobs.submit("UpdateWorker", worker_id, spec.url, work)
        return True

    def patch(self, worker_id: str, patch: WorkerPatch) -> bool:
        """Change a worker in place; False if there is none. One that is no longer probed counts as ready."""
        waiting = self._pending.get(worker_id)
        if waiting is not None:
            self._pending[worker_id] = apply_patch(waiting, patch)
            return True
        worker = self._registry.patch(worker_id, patch)
        if worker is None:
            return False
        probed = health_options(self._health, worker).enabled or worker.connection_mode in CONNECT_THEMSELVES
        if patch.health is not None and not probed:
            self._registry.set_status(worker_id, Status.READY, worker.revision)
        return True

    def remove(self, worker_id: str) -> bool:
        """Take a worker out; False if there is none."""
        if worker_id in self._pending:
            self._jobs.cancel(worker_id)
            self._forget(worker_id)
            return True
        worker = self._registry.snapshot.by_id.get(worker_id)
        if worker is None:
            return False
        if worker.status is Status.DRAINING:
            return True
        self._jobs.cancel(worker_id)
        settle_secs = health_options(self._health, worker).drain_settle_secs
        if worker.status is Status.READY and settle_secs:
            self._registry.set_status(worker_id, Status.DRAINING, worker.revision)
            self._jobs.submit_beside("RemoveWorker", worker_id, worker.url, partial(self._drain, worker, settle_secs))
        else:
            self._leave(worker)
        return True

    # --- the jobs

    def _begin(self, spec: WorkerSpec, submit: Callable[[JobType, str, str, Work], None]) -> str:
        worker_id = self._new_id()
        self._registry.reserve(worker_id, spec.url)
        self._pending[worker_id] = spec
        try:
            submit("AddWorker", worker_id, spec.url, partial(self._register, worker_id))
        except QueueFull:
            self._forget(worker_id)
            raise
        return worker_id

    async def _register(self, worker_id: str) -> None:
        try:
            found = await self._examine(lambda: self._pending[worker_id])
            worker = self._worker(worker_id, self._pending[worker_id], found)
            for registered in self._ranks_of(worker):
                self._registry.add(registered)
        finally:
            self._forget(worker_id)
        log.info("worker registered", worker=worker.url, runtime=worker.runtime, model=worker.model_id or "any")

    async def _replace(self, worker_id: str, revision: int, spec: WorkerSpec) -> None:
        found = await self._examine(lambda: spec)
        try:
            worker = self._registry.replace(worker_id, revision, self._worker(worker_id, spec, found))
        except StaleRevision as error:
            raise JobFailed(str(error)) from None
        log.info(
            "worker registered anew",
            worker=worker.url,
            runtime=worker.runtime,
            model=worker.model_id or "any",
        )

    async def _drain(self, worker: Worker, settle_secs: float) -> None:
        log.info("worker drains", worker=worker.url, settle_secs=settle_secs)
        await self._sleep(settle_secs)
        self._leave(worker)

    def _leave(self, worker: Worker) -> None:
        self._registry.remove(worker.id)
        log.info("worker removed", worker=worker.url)

    def _forget(self, worker_id: str) -> None:
        self._pending.pop(worker_id, None)
        self._registry.release(worker_id)

    # --- getting to know an engine

    async def _examine(self, spec: Callable[[], WorkerSpec]) -> Inspection:
        """Wait for an engine and inspect it; its spec may be patched meanwhile."""
        if known_runtime(spec()) != "external":  # a provider is up, and has no route to ask
            await self._sleep(self._options.startup_delay_secs)
            await self._wait_until_up(spec().url)
        found = await self._inspector.inspect(spec())
        if self._choose_http2 is not None and await self._choose_http2(spec()):
            return replace(found, http2=True)
        return found

    async def _wait_until_up(self, url: str) -> None:
        deadline = self._now() + self._options.startup_timeout_secs
        trouble = await self._inspector.trouble(url)
        if trouble is not None:
            log.warning("waiting for a worker to come up", worker=url, reason=trouble)
        while trouble is not None:
            left = deadline - self._now()
            if left <= 0:
                waited = self._options.startup_timeout_secs
                raise JobFailed(f"{url} did not come up within {waited:g} s: {trouble}")
            await self._sleep(min(left, self._options.startup_check_interval_secs))
            trouble = await self._inspector.trouble(url)

    def _worker(self, worker_id: str, spec: WorkerSpec, found: Inspection) -> Worker:
        labels = {**found.labels, **spec.labels}
        mode = parse_address(spec.url).connection_mode
        return Worker(
            id=worker_id,
            url=spec.url,
            base_url=spec.url,
            breaker=self._new_breaker(spec),
            models=model_cards(spec, labels),
            worker_type=spec.worker_type,
            connection_mode=mode,
            http2=found.http2,
            runtime=found.runtime,
            labels=labels,
            priority=spec.priority,
            cost=spec.cost,
            api_key=spec.api_key,
            status=Status.PENDING if mode in CONNECT_THEMSELVES else Status.READY,
            bootstrap_port=spec.bootstrap_port,
            spec=spec,
            statuses=status_rules(spec.resilience.retryable_status_codes, spec.resilience.capacity_status_codes),
        )

    def _ranks_of(self, worker: Worker) -> list[Worker]:
        """The workers to register for an engine: one for each of its data-parallel ranks, if ranks are wanted.

        Ranks share the engine's address; load, breaker and id are their own, the first one's id is the engine's. An
        engine with a single rank keeps its plain URL.
        """
        ranked = self._options.dp_aware and worker.runtime == DP_RUNTIME and worker.connection_mode == "http"
        if not ranked or worker.spec is None:
            return [worker]
        size = _rank_count(worker)
        if size == 1:
            return [worker]
        urls = [f"{worker.url}@{rank}" for rank in range(size)]
        return [
            replace(
                worker,
                id=worker.id if rank == 0 else self._new_id(),
                url=url,
                breaker=self._new_breaker(msgspec.structs.replace(worker.spec, url=url)),
                dp_rank=rank,
                dp_size=size,
            )
            for rank, url in enumerate(urls)
        ]


def _rank_count(worker: Worker) -> int:
    """How many data-parallel ranks an engine says it has; one that does not say so fails its registration."""
    text = worker.labels.get("dp_size", "")
    size = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(MAX_RANKS)) else 0
    if not 1 <= size <= MAX_RANKS:
        raise JobFailed(f"{worker.url} must say how many data-parallel ranks it has, 1 to {MAX_RANKS}, not {text!r}")
    return size


def _check_same_url(url: str, other: str) -> None:
    if url != other:
        raise SpecError(f"url: the worker's is {url!r}; to move it, remove it and add it anew")
