"""`consistent_hashing`: one key, one worker, as long as it is available; few keys move when the fleet
changes.

What decides, in this order: the worker index the caller asks for, the routing key it sent, what identifies it
without its doing, chance. An index that names no candidate selects nothing: whoever asks for one worker means
no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from smg.fleet.hints import Hints
from smg.fleet.policies.base import NoOptions, Policy, PolicyContext, uniform
from smg.fleet.structures.hash_ring import WorkerRing
from smg.fleet.worker import Worker

LONGEST_INDEX = 9
"""Digits of a worker index: far beyond any fleet, and safe to convert."""


class ConsistentHashing(Policy):
    """Keeps the hash ring of the workers seen and not forgotten."""

    name: ClassVar[str] = "consistent_hashing"
    reads_keys: ClassVar[bool] = True

    def __init__(self, ctx: PolicyContext, options: NoOptions | None = None) -> None:  # noqa: ARG002 - the contract
        self._rng = ctx.rng
        self._count = ctx.count
        self._ring = WorkerRing()

    def select(self, workers: Sequence[Worker], hints: Hints) -> Worker | None:
        """Take the worker asked for, else the owner of the key, else any."""
        if hints.target is not None:
            index = _index(hints.target)
            hit = 0 <= index < len(workers)
            self._count("target_worker_hit" if hit else "target_worker_miss")
            return workers[index] if hit else None
        key = hints.routing_key or hints.identity
        if key:
            self._count("routing_key_hit")
            return self._ring.owner(key.encode("utf-8", "surrogatepass"), workers)
        self._count("random_fallback")
        return uniform(workers, self._rng)

    def forget(self, url: str) -> None:
        """Take a removed worker off the ring."""
        self._ring.forget(url)


def _index(target: str) -> int:
    """The worker index a caller wrote, or -1 if it is no plain decimal number of a sane length."""
    if target.isascii() and target.isdecimal() and len(target) <= LONGEST_INDEX:
        return int(target)
    return -1
