"""`prefix_hash`: prompts that begin alike go to one worker, chosen by hashing their head; no memory of
prompts is kept.

The head is the routing key if the caller sent one, else the prompt's first tokens, else its first characters
(four for a token). With cache boundaries set, the head ends at the deepest boundary the prompt reaches, and
shallower boundaries are second choices. A worker far busier than the average passes its turn on: to a
shallower head's owner, then to the least loaded worker.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from smg.fleet.expected_wait import fewest_in_flight
from smg.fleet.hints import Hints
from smg.fleet.policies.base import Policy, PolicyContext
from smg.fleet.structures.hash_ring import WorkerRing
from smg.fleet.worker import Worker

CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class PrefixHashOptions:
    """`prefix_token_count` and the ascending `cache_boundaries` are tokens.

    A worker is overloaded above `prefix_hash_load_factor` times the average in flight and, at once, above the
    average plus `prefix_hash_balance_abs_threshold`.
    """

    prefix_token_count: int = 256
    prefix_hash_load_factor: float = 1.25
    prefix_hash_balance_abs_threshold: int = 10
    cache_boundaries: tuple[int, ...] = ()


class PrefixHash(Policy):
    """Keeps the hash ring of the workers seen and not forgotten."""

    name: ClassVar[str] = "prefix_hash"
    options: ClassVar[type] = PrefixHashOptions
    reads_keys: ClassVar[bool] = True
    reads_text: ClassVar[bool] = True

    def __init__(self, ctx: PolicyContext, options: PrefixHashOptions | None = None) -> None:
        self._options = options or PrefixHashOptions()
        self._deepest_first = tuple(reversed(self._options.cache_boundaries))
        self._rng = ctx.rng
        self._count = ctx.count
        self._ring = WorkerRing()

    def select(self, workers: Sequence[Worker], hints: Hints) -> Worker:
        """Take the owner of the prompt's head, unless it is overloaded and another is not."""
        heads = self._heads(hints)
        if not heads:
            self._count("no_routing_key")
            return fewest_in_flight(workers, self._rng)
        target = self._ring.owner(heads[0], workers)
        # Nobody can be overloaded with this little in flight, whatever the average is.
        if target.load <= self._options.prefix_hash_balance_abs_threshold:
            self._count("ring_hit")
            return target
        return self._relieve(target, heads, workers)

    def forget(self, url: str) -> None:
        """Take a removed worker off the ring."""
        self._ring.forget(url)

    def _relieve(self, target: Worker, heads: list[bytes], workers: Sequence[Worker]) -> Worker:
        limit = self._limit(workers)
        for owner in (target, *(self._ring.owner(head, workers) for head in heads[1:])):
            if owner.load <= limit:
                self._count("ring_hit")
                return owner
        self._count("load_balance_walk")
        return fewest_in_flight(workers, self._rng)  # never above the average, so not overloaded itself

    def _limit(self, workers: Sequence[Worker]) -> float:
        """The most requests in flight that do not make a worker overloaded."""
        options = self._options
        average = (sum([worker.load for worker in workers]) + 1) / len(workers)
        return max(options.prefix_hash_load_factor * average, average + options.prefix_hash_balance_abs_threshold)

    def _heads(self, hints: Hints) -> list[bytes]:
        """What to hash, the first choice first; empty if the request carries nothing to hash."""
        if hints.routing_key:
            return [hints.routing_key.encode("utf-8", "surrogatepass")]
        if hints.tokens:
            return [_pack(hints.tokens[:length]) for length in self._lengths(len(hints.tokens))]
        text = hints.text
        lengths = self._lengths(len(text) // CHARS_PER_TOKEN) if text else []
        return [text[: length * CHARS_PER_TOKEN].encode("utf-8", "surrogatepass") for length in lengths]

    def _lengths(self, tokens: int) -> list[int]:
        reached = [boundary for boundary in self._deepest_first if boundary <= tokens]
        return reached or [self._options.prefix_token_count]


def _pack(tokens: Sequence[int]) -> bytes:
    """The same bytes for the same ids on every machine."""
    try:
        return struct.pack(f"<{len(tokens)}I", *tokens)
    except struct.error:  # not ids any tokenizer makes, yet they may come from a caller
        return repr(list(tokens)).encode()
