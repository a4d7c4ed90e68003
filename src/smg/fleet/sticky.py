"""Sticky sessions: on top of any policy, the requests of one session stay with one worker.

A session is named by its routing key. The first request of a session is placed by the assignment mode and the place
is remembered; later ones follow it while that worker is a candidate, and go to the substitute while it is not. A worker
that already has `CAP` requests of the session in flight does not get another while somebody else is there: an agent
that fans out should not queue behind itself. A session that is placed anew moves along: the new worker becomes its
home, the old one its substitute.

What names a session, and that sessions of different models are different, is the business of whoever asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Literal

from smg.fleet.expected_wait import fewest_in_flight, lowest
from smg.fleet.policies.base import uniform
from smg.fleet.structures.placement_map import PlacementMap
from smg.fleet.structures.worker_index import WorkerIndex
from smg.fleet.worker import Worker

CAP = 2

AssignmentMode = Literal["random", "min_load", "min_group", "delegate"]
Choose = Callable[[Sequence[Worker]], Worker | None]

_IDLE: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class StickyOptions:
    """`delegate` asks the policy underneath where a session goes; `max_idle_secs` of 0 keeps sessions."""

    assignment_mode: AssignmentMode = "delegate"
    max_idle_secs: float = 14400


class StickySessions:
    """Remembers where sessions went, within the bounds of `PlacementMap`, and what each has in flight."""

    def __init__(self, options: StickyOptions, rng: Random, now: Callable[[], float]) -> None:
        self._mode = options.assignment_mode
        self._rng = rng
        self._now = now
        self._pins = PlacementMap(options.max_idle_secs)
        self._index = WorkerIndex()
        # session -> worker URL -> requests in flight. Nothing stays at zero, so requests bound it.
        self._in_flight: dict[str, dict[str, int]] = {}

    def place(self, session: str, workers: Sequence[Worker], choose: Choose) -> Worker | None:
        """The worker for a request of a session, among candidates; `choose` is the policy's own choice.

        None only when the policy is asked and selects nobody.
        """
        now = self._now()
        home = self._home(session, workers)
        in_flight = self._in_flight.get(session, _IDLE)
        if home is None or in_flight.get(home.url, 0) >= CAP:
            chosen = self._place_anew(home, in_flight, workers, choose)
            if chosen is not None:
                self._pins.settle(session, chosen.url, now, lead=chosen is not home)
            return chosen
        self._pins.settle(session, home.url, now)
        return home

    def enter(self, session: str, worker: Worker) -> None:
        """A request of the session is on its way to a worker."""
        in_flight = self._in_flight.get(session)
        if in_flight is None:
            in_flight = self._in_flight[session] = {}
        in_flight[worker.url] = in_flight.get(worker.url, 0) + 1

    def leave(self, session: str, worker: Worker) -> None:
        """That request is over."""
        in_flight = self._in_flight[session]
        left = in_flight[worker.url] - 1
        if left:
            in_flight[worker.url] = left
            return
        del in_flight[worker.url]
        if not in_flight:
            del self._in_flight[session]

    def active_sessions(self) -> dict[str, int]:
        """How many distinct sessions have requests in flight, by worker URL."""
        active: dict[str, int] = {}
        for in_flight in self._in_flight.values():
            for url in in_flight:
                active[url] = active.get(url, 0) + 1
        return active

    def forget(self, url: str) -> None:
        """A worker was removed: every session forgets it. Its requests in flight still leave one by one."""
        self._pins.forget(url)
        self._index.clear()

    def sweep(self, now: float) -> None:
        """Drop sessions that were idle for too long."""
        self._pins.evict_idle(now)

    def __len__(self) -> int:
        return len(self._pins)

    def _home(self, session: str, workers: Sequence[Worker]) -> Worker | None:
        """The first worker a session remembers that is a candidate."""
        urls = self._pins.recall(session)
        if urls:
            by_url = self._index.by_url(workers)
            for url in urls:
                worker = by_url.get(url)
                if worker is not None:
                    return worker
        return None

    def _place_anew(
        self, home: Worker | None, in_flight: Mapping[str, int], workers: Sequence[Worker], choose: Choose
    ) -> Worker | None:
        """Place a session that is new, whose workers are out, or whose home has enough of it.

        Workers that have enough of it are passed over while there are others; among themselves the home is first.
        """
        full = {url for url, count in in_flight.items() if count >= CAP}
        free = [worker for worker in workers if worker.url not in full] if full else workers
        if free:
            return self._assign(free, choose) or home
        return home or self._assign(workers, choose)

    def _assign(self, workers: Sequence[Worker], choose: Choose) -> Worker | None:
        if self._mode == "random":
            return uniform(workers, self._rng)
        if self._mode == "min_load":
            return fewest_in_flight(workers, self._rng)
        if self._mode == "min_group":
            return lowest(workers, [self._pins.keys_at(worker.url) for worker in workers], self._rng)
        return choose(workers)
