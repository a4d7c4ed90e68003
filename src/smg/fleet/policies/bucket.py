"""`bucket`: every worker takes prompts of its own range of lengths, for the prefill half of a split engine.

Prompts of one length make a steady batch: short ones do not wait behind long ones. The ranges follow the traffic, so
that each brings about the same work (see `LengthRanges`). When the workers got uneven work lately all the same, the
one that got least takes the next prompt instead, as it does while the owner of a range is out, and for requests that
show no length.

Lengths are in tokens where a request brings them, else in characters; what is compared with what is up to the traffic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from smg.fleet.expected_wait import lowest
from smg.fleet.hints import Hints
from smg.fleet.policies.base import Policy, PolicyContext
from smg.fleet.structures.length_ranges import LengthRanges
from smg.fleet.structures.worker_index import WorkerIndex
from smg.fleet.worker import Worker


@dataclass(frozen=True, slots=True)
class BucketOptions:
    """`bucket_adjust_interval_secs` is how often ranges are looked at, and how much of the past counts.

    Work is uneven when the most and the least of it differ by more than `balance_abs_threshold` (in the unit of
    lengths) and the most exceeds `balance_rel_threshold` times the least.
    """

    bucket_adjust_interval_secs: float = 5
    balance_abs_threshold: float = 64
    balance_rel_threshold: float = 1.5


class Bucket(Policy):
    """Keeps a range a worker and the lengths of the latest requests, within the bounds of `LengthRanges`."""

    name: ClassVar[str] = "bucket"
    options: ClassVar[type] = BucketOptions
    reads_text: ClassVar[bool] = True

    def __init__(self, ctx: PolicyContext, options: BucketOptions | None = None) -> None:
        self._options = options or BucketOptions()
        self._ctx = ctx
        self._ranges = LengthRanges(self._options.bucket_adjust_interval_secs)
        self._index = WorkerIndex()
        self._ranged: dict[str, Worker] = {}

    def select(self, workers: Sequence[Worker], hints: Hints) -> Worker:
        """Take the owner of the prompt's length, or the worker with the least work lately."""
        now, ranges = self._ctx.now(), self._ranges
        by_url = self._index.by_url(workers)
        if by_url is not self._ranged:
            ranges.admit(by_url)
            self._ranged = by_url
        ranges.advance(now)
        length = len(hints.tokens) if hints.tokens else len(hints.text)
        work = ranges.work(by_url)
        chosen = by_url.get(ranges.owner(length)) if length and not self._is_uneven(work) else None
        if chosen is None:
            chosen = lowest(workers, work, self._ctx.rng)
        ranges.record(length or ranges.mean_length, chosen.url, now)
        return chosen

    def forget(self, url: str) -> None:
        """Give a removed worker's range to the others."""
        self._ranges.forget(url)
        self._index.clear()
        self._ranged = {}

    def sweep(self, now: float) -> None:
        """Let go of requests that are too old to count."""
        self._ranges.advance(now)

    def sizes(self) -> dict[str, int]:
        """How many workers have a range, and how many requests are remembered."""
        return {"ranges": len(self._ranges), "samples": self._ranges.samples}

    def _is_uneven(self, work: Sequence[int]) -> bool:
        most, least = max(work), min(work)
        options = self._options
        return most - least > options.balance_abs_threshold and most > options.balance_rel_threshold * least
