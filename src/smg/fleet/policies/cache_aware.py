"""`cache_aware`: a prompt goes where its beginning is likely in the KV cache, unless that worker is much too
busy.

The gateway remembers which prompts it sent where, tokens in one tree and text in another. If a large enough
share of a prompt is known, the workers that hold it are candidates, and the one with the lowest expected wait
gets it; if all of them are hot, or nothing is known, the lowest expected wait decides among the others, or
among all. Where the request finally went is recorded.

What a worker really caches is only guessed here.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import sqrt
from typing import AnyStr, ClassVar

from smg.fleet.expected_wait import ExpectedWait
from smg.fleet.hints import Hints
from smg.fleet.policies.base import Policy, PolicyContext
from smg.fleet.structures.radix_tree import Match, RadixTree
from smg.fleet.structures.worker_index import WorkerIndex
from smg.fleet.worker import Worker

MAX_HOLDERS = 8
LEAST_MARGIN = 4
"""Requests above the mean that are no sign of imbalance in the smallest pool."""
TOKEN_BYTES = array("I").itemsize
LONGEST_PARTITION = 64
_TOKEN_MASK = (1 << 8 * TOKEN_BYTES) - 1


@dataclass(frozen=True, slots=True)
class CacheAwareOptions:
    """When affinity counts, when it yields, and how much is remembered.

    A match must exceed the share `cache_threshold` of the prompt. A worker is hot above
    `balance_rel_threshold` times the mean in flight and, at once, above the mean plus a margin:
    `balance_abs_threshold`, or two standard deviations of the count at that mean (4 at least) if that is
    less. Affinity is off while the fullest KV cache exceeds `overload_token_usage_threshold`, or the fullest
    and the emptiest differ by more than `balance_token_usage_threshold`; 1 or more disables either.
    `max_tree_size` bounds each tree, in characters or tokens, counted once a worker; `block_size` tokens are
    the least that can match.
    """

    cache_threshold: float = 0.3
    balance_abs_threshold: float = 64
    balance_rel_threshold: float = 1.5
    balance_token_usage_threshold: float = 1.0
    overload_token_usage_threshold: float = 1.0
    max_tree_size: int = 67_108_864
    block_size: int = 16


LABEL_OPTIONS = CacheAwareOptions(
    cache_threshold=0.5, balance_abs_threshold=32, balance_rel_threshold=1.1, max_tree_size=10_000
)
"""For a model whose `policy` label asks for this policy where the command line asks for another."""


class CacheAware(Policy):
    """Keeps two trees, each within `max_tree_size` (see `RadixTree` for its other bounds)."""

    name: ClassVar[str] = "cache_aware"
    options: ClassVar[type] = CacheAwareOptions
    reads_text: ClassVar[bool] = True

    def __init__(self, ctx: PolicyContext, options: CacheAwareOptions | None = None) -> None:
        self._options = options = options or CacheAwareOptions()
        self._ctx = ctx
        self._waits = ExpectedWait()
        self._index = WorkerIndex()
        self._least_margin = min(options.balance_abs_threshold, LEAST_MARGIN)
        self._watches_usage = min(options.balance_token_usage_threshold, options.overload_token_usage_threshold) < 1
        self._page_bytes = options.block_size * TOKEN_BYTES
        self._text: RadixTree[str] = RadixTree(options.max_tree_size)
        self._tokens: RadixTree[bytes] = RadixTree(options.max_tree_size * TOKEN_BYTES, self._page_bytes)

    def select(self, workers: Sequence[Worker], hints: Hints) -> Worker:
        """Take a holder of the prompt's beginning, or the one with the lowest expected wait; record it."""
        if hints.tokens:
            packed = _pack(hints.tokens)
            pages = packed[: len(packed) - len(packed) % self._page_bytes]
            return self._place(self._tokens, pages, len(packed), workers, hints)
        return self._place(self._text, hints.text, len(hints.text), workers, hints)

    def forget(self, url: str) -> None:
        """Purge a removed worker from both trees."""
        self._text.forget(url)
        self._tokens.forget(url)
        self._waits.forget(url)
        self._index.clear()

    def sizes(self) -> dict[str, int]:
        """Characters and tokens held, counted once a worker, and how many workers hold any."""
        return {
            "chars": self._text.size,
            "tokens": self._tokens.size // TOKEN_BYTES,
            "text_tenants": self._text.holders,
            "token_tenants": self._tokens.holders,
        }

    def _place(
        self, tree: RadixTree[AnyStr], prompt: AnyStr, length: int, workers: Sequence[Worker], hints: Hints
    ) -> Worker:
        """Place a prompt of `length` elements, of which `prompt` are those that the tree can hold."""
        found = tree.match(prompt, _namespace(hints.partition))
        self._ctx.observe("match_ratio", found.matched / length if length else 0.0)
        chosen = self._choose(tree, found, length, workers)
        tree.record(found, chosen.url)
        return chosen

    def _choose(self, tree: RadixTree[AnyStr], found: Match[AnyStr], length: int, workers: Sequence[Worker]) -> Worker:
        holders = self._holders(tree, found, length, workers)
        if not holders or (self._watches_usage and self._is_pressed(workers)):
            self._ctx.count("expected_wait_fallback")
            return self._waits.least(workers, self._ctx.rng)
        cool = self._cool(holders, workers)
        if cool:
            self._ctx.count("tree_match")
            return cool[0] if len(cool) == 1 else self._waits.least(cool, self._ctx.rng)
        self._ctx.count("spill")
        return self._waits.least(self._cool(workers, workers) or workers, self._ctx.rng)

    def _holders(
        self, tree: RadixTree[AnyStr], found: Match[AnyStr], length: int, workers: Sequence[Worker]
    ) -> list[Worker]:
        """Candidates that hold enough of the prompt: those of the deepest matched node that has any."""
        least = self._options.cache_threshold * length
        for matched, holders in tree.levels(found):
            if matched <= least:
                break
            candidates = self._available(holders, self._index.by_url(workers))
            if candidates:
                return candidates
        return []

    def _available(self, holders: Mapping[str, int], by_url: Mapping[str, Worker]) -> list[Worker]:
        """The candidates among the holders, some eight of them if there are more, from a random one on."""
        urls = [url for url in holders if url in by_url]
        if len(urls) > MAX_HOLDERS:
            start = int(self._ctx.rng.random() * len(urls))
            urls = (urls + urls)[start : start + MAX_HOLDERS]
        return [by_url[url] for url in urls]

    def _cool(self, candidates: Sequence[Worker], workers: Sequence[Worker]) -> list[Worker]:
        """The candidates that are not hot by the standard of all workers."""
        busiest = max([worker.load for worker in candidates])
        if busiest <= self._least_margin:  # not hot by any mean, so spare the pass over all workers
            return list(candidates)
        options = self._options
        mean = sum([worker.load for worker in workers]) / len(workers)
        # In-flight counts swing like a Poisson variable: their variance is their mean.
        margin = min(options.balance_abs_threshold, max(LEAST_MARGIN, 2 * sqrt(mean)))
        limit = max(options.balance_rel_threshold * mean, mean + margin)
        return [worker for worker in candidates if worker.load <= limit]

    def _is_pressed(self, workers: Sequence[Worker]) -> bool:
        """Whether KV caches are so full, or so unevenly full, that affinity must wait."""
        usages = [
            worker.report.token_usage
            for worker in workers
            if worker.report is not None and worker.report.token_usage is not None
        ]
        if not usages:
            return False
        fullest, options = max(usages), self._options
        return (options.overload_token_usage_threshold < 1 and fullest > options.overload_token_usage_threshold) or (
            options.balance_token_usage_threshold < 1 and fullest - min(usages) > options.balance_token_usage_threshold
        )


def _pack(tokens: Sequence[int]) -> bytes:
    """Token ids as bytes of one width, in this machine's order: they never leave it."""
    try:
        return array("I", tokens).tobytes()
    except OverflowError:  # not ids any tokenizer makes, yet they may come from a caller
        return array("I", [token & _TOKEN_MASK for token in tokens]).tobytes()


def _namespace(partition: str) -> str:
    """A partition's name of bounded length."""
    if len(partition) <= LONGEST_PARTITION:
        return partition
    return blake2b(partition.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
