"""Sticky sessions: on top of any policy, the requests of one session stay with one worker.

A session is named by its routing key. The first request of a session is placed by the assignment mode and the place
is remembered; later ones follow it while that worker is a candidate, and go to the substitute while it is not. A worker
that already has `CAP` requests of the session in flight does not get another while somebody else is there: an agent
that fans out should not queue behind itself. The session then moves along.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from smg.fleet.expected_wait import fewest_in_flight, lowest
from smg.fleet.policies.base import uniform
from smg.fleet.structures.placement_map import PlacementMap
from smg.fleet.worker import Worker

CAP = 2

AssignmentMode = Literal["random", "min_load", "min_group", "delegate"]
Choose = Callable[[Sequence[Worker]], Worker | None]


@dataclass(frozen=True, slots=True)
class StickyOptions:
    """`delegate` asks the policy underneath where a new session goes; `max_idle_secs` of 0 keeps sessions."""

    assignment_mode: AssignmentMode = "delegate"
    max_idle_secs: float = 14400


class StickySessions:
    """Remembers where sessions went, scoped by model; within the bounds of `PlacementMap`."""

    def __init__(self, options: StickyOptions, rng: Random, now: Callable[[], float]) -> None:
        self._mode = options.assignment_mode
        self._rng = rng
        self._now = now
        self._pins = PlacementMap(options.max_idle_secs)
        # (session, worker URL) -> requests in flight; entries at zero are removed.
        self._in_flight: dict[tuple[str, str], int] = {}

    def place(self, session: str, workers: Sequence[Worker], choose: Choose) -> Worker | None:
        """The worker for a request of a session, among candidates; `choose` is the policy's own choice."""
        now = self._now()
        urls = self._pins.recall(session)
        home = None
        if urls:
            by_url = {worker.url: worker for worker in workers}
            home = next((by_url[url] for url in urls if url in by_url), None)
        if home is not None and not self._is_full(session, home):
            self._pins.settle(session, home.url, now)
            return home
        chosen = self._place_anew(session, home, workers, choose)
        if chosen is not None:
            self._pins.settle(session, chosen.url, now, lead=chosen is not home)
        return chosen

    def enter(self, session: str, worker: Worker) -> None:
        """A request of the session is on its way to a worker."""
        key = (session, worker.url)
        self._in_flight[key] = self._in_flight.get(key, 0) + 1

    def leave(self, session: str, worker: Worker) -> None:
        """That request is over."""
        key = (session, worker.url)
        left = self._in_flight[key] - 1
        if left:
            self._in_flight[key] = left
        else:
            del self._in_flight[key]

    def active_sessions(self) -> dict[str, int]:
        """How many distinct sessions have requests in flight, by worker URL."""
        active: dict[str, int] = {}
        for _, url in self._in_flight:
            active[url] = active.get(url, 0) + 1
        return active

    def forget(self, url: str) -> None:
        """A worker was removed: every session forgets it."""
        self._pins.forget(url)

    def sweep(self, now: float) -> None:
        """Drop sessions that were idle for too long."""
        self._pins.evict_idle(now)

    def __len__(self) -> int:
        return len(self._pins)

    def _place_anew(
        self, session: str, home: Worker | None, workers: Sequence[Worker], choose: Choose
    ) -> Worker | None:
        """Place a session that is new, whose home is out, or whose home has enough of it."""
        free = [worker for worker in workers if worker is not home and not self._is_full(session, worker)]
        if not free and home is not None:
            return home
        return self._assign(free or workers, choose)

    def _is_full(self, session: str, worker: Worker) -> bool:
        return self._in_flight.get((session, worker.url), 0) >= CAP

    def _assign(self, workers: Sequence[Worker], choose: Choose) -> Worker | None:
        if self._mode == "random":
            return uniform(workers, self._rng)
        if self._mode == "min_load":
            return fewest_in_flight(workers, self._rng)
        if self._mode == "min_group":
            return lowest(workers, [self._pins.keys_at(worker.url) for worker in workers], self._rng)
        return choose(workers)
