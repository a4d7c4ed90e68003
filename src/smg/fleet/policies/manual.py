"""`manual`: a routing key stays with the worker it was first given, and has one substitute while that one is
out.

Which worker a new key is given is set by the assignment mode. A request without a key is placed in the same
way and not remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from smg.fleet.expected_wait import fewest_in_flight, lowest
from smg.fleet.hints import Hints
from smg.fleet.policies.base import Policy, PolicyContext, uniform
from smg.fleet.structures.placement_map import PlacementMap
from smg.fleet.structures.worker_index import WorkerIndex
from smg.fleet.worker import Worker

AssignmentMode = Literal["random", "min_load", "min_group", "delegate"]


@dataclass(frozen=True, slots=True)
class ManualOptions:
    """How keys are given to workers and when unused ones are dropped (never, if one of the two times is 0).

    `min_load` takes the worker with the fewest requests in flight, `min_group` the one with the fewest keys;
    there is no other policy to `delegate` to here, so that is `min_load`. None stands for the policy's own
    choice, `random`.
    """

    assignment_mode: AssignmentMode | None = None
    max_idle_secs: float = 14400
    eviction_interval_secs: float = 60


class Manual(Policy):
    """Keeps the map from keys to workers, within the bounds of `PlacementMap`."""

    name: ClassVar[str] = "manual"
    options: ClassVar[type] = ManualOptions
    reads_keys: ClassVar[bool] = True

    def __init__(self, ctx: PolicyContext, options: ManualOptions | None = None) -> None:
        options = options or ManualOptions()
        self._ctx = ctx
        self._pins = PlacementMap(options.max_idle_secs if options.eviction_interval_secs else 0)
        self._index = WorkerIndex()
        self._assign: Callable[[Sequence[Worker]], Worker] = {
            "random": self._any,
            "min_load": self._min_load,
            "min_group": self._min_group,
            "delegate": self._min_load,
        }[options.assignment_mode or "random"]

    def select(self, workers: Sequence[Worker], hints: Hints) -> Worker:
        """Take the key's worker if it is a candidate, else its substitute, else give it another."""
        key = hints.routing_key
        if not key:
            self._ctx.count("no_routing_id")
            return self._assign(workers)
        chosen = self._return(self._pins.recall(key), workers)
        self._pins.settle(key, chosen.url, self._ctx.now())
        return chosen

    def forget(self, url: str) -> None:
        """Unpin every key from a removed worker."""
        self._pins.forget(url)
        self._index.clear()

    def sweep(self, now: float) -> None:
        """Drop the keys that were idle for too long."""
        self._pins.evict_idle(now)

    def sizes(self) -> dict[str, int]:
        """The number of remembered keys."""
        return {"entries": len(self._pins)}

    def _return(self, homes: Sequence[str] | None, workers: Sequence[Worker]) -> Worker:
        """The first of a key's homes that is a candidate, else a worker newly assigned."""
        if homes is None:
            self._ctx.count("vacant")
            return self._assign(workers)
        by_url = self._index.by_url(workers)
        for url in homes:
            known = by_url.get(url)
            if known is not None:
                self._ctx.count("occupied_hit")
                return known
        self._ctx.count("occupied_miss")
        return self._assign(workers)

    def _any(self, workers: Sequence[Worker]) -> Worker:
        return uniform(workers, self._ctx.rng)

    def _min_load(self, workers: Sequence[Worker]) -> Worker:
        return fewest_in_flight(workers, self._ctx.rng)

    def _min_group(self, workers: Sequence[Worker]) -> Worker:
        keys_at = self._pins.keys_at
        return lowest(workers, [keys_at(worker.url) for worker in workers], self._ctx.rng)
