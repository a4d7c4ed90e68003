"""Polls the engines' load, and notes on each worker what its engine reported and whether that is too much.

All engines are asked at about the same moment of every interval, so that their reports can be compared, and a worker
that has just become ready at once. What to ask and what an answer means is `engines/load_routes.py`'s business, what
makes a worker overloaded `fleet/load.py`'s. A poll that fails takes the old report and the overload flag away: what is
not known must not keep requests from a worker.

Under data parallelism the ranks of one engine are workers with one base URL; it is asked once, and each gets its rank's
row.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from smg.engines import engine_of
from smg.engines.load import Ranks
from smg.engines.load_routes import Reading, read_load
from smg.engines.plan import NO_ANSWER, Answer
from smg.errors import UpstreamError
from smg.fleet.load import OverloadOptions, is_overloaded, report_of, thresholds_of
from smg.fleet.registry import Change, Registry
from smg.fleet.worker import Status, Worker
from smg.net.fetch import Fetcher
from smg.services.questions import answer_of, run_plan
from smg.telemetry.logs import get_logger

log = get_logger("smg.services.load_monitor")

MAX_POLLS = 64
"""Polls under way at once; an engine that hangs occupies one for the deadline."""
AT_A_TIME, PAUSE_SECS = 8, 0.005
"""A large fleet is asked in small steps, so that requests are not held up by a thousand polls at once."""
POLL_TIMEOUT_SECS = 5.0
MAX_REPORT_BYTES = 4 << 20
"""Metrics of an engine with many models and buckets are some hundred kilobytes."""
ROUNDS_OFF = 6
"""Rounds for which an engine without any load route is left alone: each question is a line in its log."""


@dataclass(slots=True, eq=False)
class _Watch:
    """One engine: the workers behind its base URL, the route that answered last, and the rounds it is left alone."""

    workers: dict[str, Worker] = field(default_factory=dict)
    route: str | None = None
    rounds_off: int = 0
    polling: bool = False


class LoadMonitor:
    """Keeps the reports and overload flags of a registry's workers while `run` runs.

    Engines are asked every `interval_secs`, if their load is `needed` or overload protection is on for them. `on_flag`
    hears that a worker's overload flag moved.
    """

    def __init__(
        self,
        registry: Registry,
        fetcher: Fetcher,
        overload: OverloadOptions,
        *,
        interval_secs: float = 10.0,
        needed: Callable[[Worker], bool] = lambda _worker: True,
        on_flag: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._registry = registry
        self._fetcher = fetcher
        self._overload = overload
        self._interval_secs = interval_secs
        self._needed = needed
        self._on_flag = on_flag
        self._now = now
        self._watches: dict[str, _Watch] = {}
        self._fresh: dict[_Watch, None] = {}
        self._wake = asyncio.Event()
        self._free = asyncio.Semaphore(MAX_POLLS)
        for worker in registry.snapshot.workers:
            self._watch(worker)
        registry.subscribe(self._follow)

    async def run(self) -> None:
        """Poll until cancelled."""
        clock = asyncio.get_running_loop().time
        due_at = clock()
        for watch in self._watches.values():
            watch.polling = False  # a crash takes polls away before they have begun
        async with asyncio.TaskGroup() as polls:
            while True:
                if clock() >= due_at:
                    due_at = max(due_at + self._interval_secs, clock())
                    due = self._round()
                else:
                    due = list(self._fresh)
                self._fresh.clear()
                await self._start(polls, due)
                await self._rest(due_at - clock())

    def _round(self) -> list[_Watch]:
        """Everybody whose turn it is."""
        due = []
        for watch in self._watches.values():
            if watch.rounds_off:
                watch.rounds_off -= 1
            else:
                due.append(watch)
        return due

    async def _start(self, polls: asyncio.TaskGroup, watches: list[_Watch]) -> None:
        for number, watch in enumerate(watches, 1):
            worker = self._spokesman(watch)
            if worker is not None and not watch.polling:
                watch.polling = True
                polls.create_task(self._poll(watch, worker))
            if number % AT_A_TIME == 0:
                await asyncio.sleep(PAUSE_SECS)

    async def _rest(self, secs: float) -> None:
        """Sleep until the next round, or until somebody is to be asked at once."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(secs, 0)):
                await self._wake.wait()
        self._wake.clear()

    # --- following the fleet

    def _follow(self, change: Change) -> None:
        worker = change.worker
        if change.kind == "removed":
            self._unwatch(worker)
            return
        watch = self._watch(worker)
        if change.kind == "updated":  # its engine, key or thresholds may be others now
            watch.route, watch.rounds_off = None, 0
        if self._wanted(worker):
            self._ask_soon(watch)
        else:
            self._note(worker, ())

    def _watch(self, worker: Worker) -> _Watch:
        watch = self._watches.setdefault(worker.base_url, _Watch())
        watch.workers[worker.id] = worker
        return watch

    def _unwatch(self, worker: Worker) -> None:
        watch = self._watches.get(worker.base_url)
        if watch is None:
            return
        watch.workers.pop(worker.id, None)
        if not watch.workers:
            del self._watches[worker.base_url]

    def _ask_soon(self, watch: _Watch) -> None:
        self._fresh[watch] = None
        self._wake.set()

    def _wanted(self, worker: Worker) -> bool:
        if worker.status is not Status.READY or worker.connection_mode != "http" or worker.runtime == "external":
            return False
        return self._needed(worker) or thresholds_of(worker, self._overload) is not None

    def _spokesman(self, watch: _Watch) -> Worker | None:
        """The worker whose key and model its engine is asked with."""
        return next((worker for worker in watch.workers.values() if self._wanted(worker)), None)

    # --- one poll

    async def _poll(self, watch: _Watch, worker: Worker) -> None:
        revision = worker.revision
        try:
            async with self._free:
                reading = await self._read(worker, watch.route)
        except Exception as error:  # one engine's answer must not cost the others their polls
            log.exception("load poll failed inside the gateway", worker=worker.url, error=error)
            reading = Reading()
        finally:
            watch.polling = False
        if worker.revision != revision:  # this was about what the worker was
            self._ask_soon(watch)
            return
        watch.route = reading.route
        watch.rounds_off = ROUNDS_OFF if reading.absent else 0
        for member in list(watch.workers.values()):
            if self._wanted(member):
                self._note(member, _rows_of(member, reading.ranks))

    async def _read(self, worker: Worker, route: str | None) -> Reading:
        plan = read_load(engine_of(worker.runtime).load_gauges, worker.model_id, route)
        return await run_plan(plan, partial(self._get, worker))

    async def _get(self, worker: Worker, path: str) -> Answer:
        try:
            fetched = await self._fetcher.get(
                worker.base_url + path,
                api_key=worker.api_key,
                timeout_secs=POLL_TIMEOUT_SECS,
                max_bytes=MAX_REPORT_BYTES,
            )
        except UpstreamError as error:
            log.debug("load poll failed", worker=worker.url, path=path, reason=error.message)
            return NO_ANSWER
        return answer_of(fetched)

    def _note(self, worker: Worker, ranks: Ranks) -> None:
        """Put a new report in the place of the old one, or none if there are no rows."""
        report = worker.report = report_of(ranks, self._now()) if ranks else None
        worker.dispatched_tokens = 0
        limits = thresholds_of(worker, self._overload)
        overloaded = report is not None and limits is not None and is_overloaded(report, limits)
        if overloaded is worker.overloaded:
            return
        worker.overloaded = overloaded
        self._on_flag()
        if report is None or not overloaded:
            log.info("worker is no longer overloaded", worker=worker.url)
        else:
            figures = {"waiting": report.waiting_requests, "token_usage": report.token_usage}
            log.warning("worker is overloaded", worker=worker.url, **figures)


def _rows_of(worker: Worker, ranks: Ranks) -> Ranks:
    """The rows that are about a worker: all, or that of its rank."""
    if worker.dp_rank is None:
        return ranks
    return tuple([rank for rank in ranks if rank.dp_rank == worker.dp_rank])
