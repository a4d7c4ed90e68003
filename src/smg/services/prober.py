"""Probes the workers' health, each at its own interval, and moves their status accordingly.

One loop keeps a heap of due times; a probe is a short task. What a probe means is the health machine's
business, the status the registry's: a result carries the revision it was obtained under, so one that comes
too late changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from smg.errors import UpstreamError
from smg.fleet.health import HealthMachine, HealthOptions, health_options
from smg.fleet.registry import Change, Registry
from smg.fleet.worker import Status, Worker
from smg.net.fetch import Fetcher
from smg.telemetry.logs import get_logger

log = get_logger("smg.services.prober")

MAX_PROBES = 128

_GOOD = range(200, 300)


@dataclass(slots=True, eq=False)
class _Watch:
    """One worker under watch. Only the heap entry that bears its `ticket` counts."""

    worker: Worker
    machine: HealthMachine = field(default_factory=HealthMachine)
    ticket: int = 0
    probing: bool = False


class Prober:
    """Watches every worker of a registry while `run` runs.

    `path` is appended to a worker's URL. `on_probe` hears of every probe, `on_failed` of a worker given up.
    """

    def __init__(
        self,
        registry: Registry,
        fetcher: Fetcher,
        health: HealthOptions,
        *,
        path: str = "/health",
        on_probe: Callable[[Worker, bool], None] = lambda _worker, _good: None,
        on_failed: Callable[[Worker], None] = lambda _worker: None,
    ) -> None:
        self._registry = registry
        self._fetcher = fetcher
        self._health = health
        self._path = path
        self._on_probe = on_probe
        self._on_failed = on_failed
        self._watches: dict[str, _Watch] = {}
        self._due: list[tuple[float, int, _Watch]] = []
        self._tickets = count(1)
        self._probing = 0
        self._wake = asyncio.Event()
        registry.subscribe(self._follow)

    async def run(self) -> None:
        """Probe until cancelled; every worker at once, then at its interval."""
        clock = asyncio.get_running_loop().time
        self._begin()
        async with asyncio.TaskGroup() as probes:
            while True:
                now = clock()
                while self._due and self._due[0][0] <= now and self._probing < MAX_PROBES:
                    _, ticket, watch = heappop(self._due)
                    if ticket == watch.ticket and self._wanted(watch):
                        watch.probing = True
                        self._probing += 1
                        probes.create_task(self._probe(watch, now))
                await self._rest(now)

    def _begin(self) -> None:
        self._due.clear()
        self._probing = 0
        for worker in self._registry.snapshot.workers:
            watch = self._watches.setdefault(worker.id, _Watch(worker))
            watch.probing = False
            self._schedule(watch, 0.0)

    async def _rest(self, now: float) -> None:
        """Sleep until a probe is due and may start, or something changed."""
        delay = max(0.0, self._due[0][0] - now) if self._due and self._probing < MAX_PROBES else None
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._wake.wait()
        self._wake.clear()

    def _follow(self, change: Change) -> None:
        if change.kind == "removed":
            gone = self._watches.pop(change.worker.id, None)
            if gone is not None:
                gone.ticket = 0
        elif change.kind != "status":  # new, or with other settings: look at once
            watch = self._watches.setdefault(change.worker.id, _Watch(change.worker))
            self._schedule(watch, 0.0)

    def _schedule(self, watch: _Watch, at: float) -> None:
        watch.ticket = next(self._tickets)
        heappush(self._due, (at, watch.ticket, watch))
        self._wake.set()

    def _wanted(self, watch: _Watch) -> bool:
        """Whether a due probe is to be made. One that is not comes up again when the worker is changed."""
        worker = watch.worker
        if watch.probing or worker.status is Status.DRAINING or worker.connection_mode != "http":
            return False
        return health_options(self._health, worker).enabled

    async def _probe(self, watch: _Watch, started: float) -> None:
        worker = watch.worker
        options = health_options(self._health, worker)
        revision = worker.revision
        try:
            good = await self._is_well(worker, options.timeout_secs)
        finally:
            watch.probing = False
            self._probing -= 1
        if self._watches.get(worker.id) is not watch:
            self._wake.set()
            return
        if worker.revision != revision:
            self._schedule(watch, 0.0)  # this result is about what the worker was
            return
        self._schedule(watch, started + options.interval_secs)
        self._judge(watch, options, good=good)

    async def _is_well(self, worker: Worker, timeout_secs: float) -> bool:
        url = worker.base_url + self._path
        try:
            answer = await self._fetcher.get(url, api_key=worker.api_key, timeout_secs=timeout_secs)
        except UpstreamError as error:
            log.debug("health probe failed", worker=worker.url, reason=error.message)
            return False
        return answer.status in _GOOD

    def _judge(self, watch: _Watch, options: HealthOptions, *, good: bool) -> None:
        worker = watch.worker
        self._on_probe(worker, good)
        before = worker.status
        status = watch.machine.feed(before, options, good=good)
        if status is None or not self._registry.set_status(worker.id, status, worker.revision):
            return
        tell = log.info if status is Status.READY else log.warning
        tell("worker status changed", worker=worker.url, before=before.value, after=status.value)
        if status is Status.FAILED:
            self._on_failed(worker)
