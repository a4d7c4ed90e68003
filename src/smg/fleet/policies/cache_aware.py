"""`cache_aware`: a prompt goes where its beginning is likely in the KV cache, unless that worker is much too
busy.

The gateway remembers which prompts it sent where, in an index of prefixes. The workers that hold the longest known
beginning are candidates, and the one with the lowest expected wait gets the prompt; if all of them are hot, or
nothing is known, the lowest expected wait decides among the others, or among all. Where the request finally went is
recorded.

What a worker really caches is only guessed here. What counts as known, and how much is remembered, is the index's
business (`structures/tree_index.py`, `structures/head_index.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar, Literal

from smg.fleet.expected_wait import ExpectedWait
from smg.fleet.hints import Hints
from smg.fleet.policies.base import Policy, PolicyContext
from smg.fleet.structures.head_index import HeadIndex
from smg.fleet.structures.overlap_score import OverlapScore
from smg.fleet.structures.prefix_index import Lookup, PrefixIndex
from smg.fleet.structures.tree_index import TreeIndex
from smg.fleet.structures.worker_index import WorkerIndex
from smg.fleet.worker import Worker

MAX_HOLDERS = 8
LEAST_MARGIN = 4
"""Requests above the mean that are no sign of imbalance in the smallest pool."""
CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class CacheAwareOptions:
    """When affinity counts, when it yields, and how much is remembered.

    `cache_index` is `tree`, where a match must exceed the share `cache_threshold` of the prompt, or `hash`, where one
    of the `cache_boundaries` (ascending token positions) must be matched exactly and is believed for
    `cache_ttl_secs`. `max_tree_size` bounds each tree, in characters or tokens, counted once a worker; `block_size`
    tokens are the least that can match.

    A worker is hot above `balance_rel_threshold` times the mean in flight and, at once, above the mean plus a margin:
    `balance_abs_threshold`, or two standard deviations of the count at that mean (4 at least) if that is
    less. Affinity is off while the fullest KV cache exceeds `overload_token_usage_threshold`, or the fullest
    and the emptiest differ by more than `balance_token_usage_threshold`; 1 or more disables either.

    With `overlap_decay` or `selection_temperature` above 0, workers that hold less of the prompt are candidates too,
    and score against each other (see `OverlapScore`).
    """

    cache_threshold: float = 0.3
    balance_abs_threshold: float = 64
    balance_rel_threshold: float = 1.5
    balance_token_usage_threshold: float = 1.0
    overload_token_usage_threshold: float = 1.0
    overlap_decay: float = 0.0
    selection_temperature: float = 0.0
    max_tree_size: int = 67_108_864
    block_size: int = 16
    cache_index: Literal["tree", "hash"] = "tree"
    cache_boundaries: tuple[int, ...] = ()
    cache_ttl_secs: float = 180


LABEL_OPTIONS = CacheAwareOptions(
    cache_threshold=0.5, balance_abs_threshold=32, balance_rel_threshold=1.1, max_tree_size=10_000
)


class CacheAware(Policy):
    """Keeps one index, within the bounds of its kind."""

    name: ClassVar[str] = "cache_aware"
    options: ClassVar[type] = CacheAwareOptions
    label_options: ClassVar[object] = LABEL_OPTIONS
    reads_text: ClassVar[bool] = True

    def __init__(self, ctx: PolicyContext, options: CacheAwareOptions | None = None) -> None:
        self._options = options = options or CacheAwareOptions()
        self._ctx = ctx
        self._waits = ExpectedWait()
        self._workers = WorkerIndex()
        self._least_margin = min(options.balance_abs_threshold, LEAST_MARGIN)
        self._watches_usage = min(options.balance_token_usage_threshold, options.overload_token_usage_threshold) < 1
        self._score = OverlapScore(options.overlap_decay, options.selection_temperature)
        self._scores = self._score.applies
        self._index = _index_of(options, ctx)

    def select(self, workers: Sequence[Worker], hints: Hints) -> Worker:
        """Take a holder of the prompt's beginning, or the one with the lowest expected wait; record it."""
        found = self._index.find(hints)
        self._ctx.observe("match_ratio", found.share)
        chosen = self._choose(found, workers, hints)
        found.record(chosen.url)
        return chosen

    def forget(self, url: str) -> None:
        """Purge a removed worker from the index."""
        self._index.forget(url)
        self._waits.forget(url)
        self._workers.clear()

    def sweep(self, now: float) -> None:
        """Drop what is too old to be believed."""
        self._index.sweep(now)

    def sizes(self) -> Mapping[str, int]:
        """What the index holds."""
        return self._index.sizes()

    def _choose(self, found: Lookup, workers: Sequence[Worker], hints: Hints) -> Worker:
        overlaps = self._overlaps(found, workers)
        if not overlaps or (self._watches_usage and self._is_pressed(workers)):
            self._ctx.count("expected_wait_fallback")
            return self._waits.least(workers, self._ctx.rng)
        cool = self._cool(overlaps, workers)
        if cool:
            self._ctx.count("tree_match")
            return cool[0] if len(cool) == 1 else self._best(cool, overlaps, hints)
        self._ctx.count("spill")
        return self._waits.least(self._cool(workers, workers) or workers, self._ctx.rng)

    def _overlaps(self, found: Lookup, workers: Sequence[Worker]) -> Mapping[Worker, int]:
        """Candidates that hold enough of the prompt, and how much: those that hold the most of it.

        Where overlaps are scored, those that hold less come after them, some eight in all.
        """
        overlaps: dict[Worker, int] = {}
        for known, holders in found.levels():
            candidates = self._available(holders, workers)
            if candidates and not self._scores:
                return dict.fromkeys(candidates, known)
            for worker in candidates:
                overlaps.setdefault(worker, known)
            if len(overlaps) >= MAX_HOLDERS:
                break
        return overlaps

    def _available(self, holders: Iterable[str], workers: Sequence[Worker]) -> list[Worker]:
        """The candidates among the holders, some eight of them if there are more, from a random one on."""
        by_url = self._workers.by_url(workers)
        urls = [url for url in holders if url in by_url]
        if len(urls) > MAX_HOLDERS:
            start = int(self._ctx.rng.random() * len(urls))
            urls = (urls + urls)[start : start + MAX_HOLDERS]
        return [by_url[url] for url in urls]

    def _best(self, workers: Sequence[Worker], overlaps: Mapping[Worker, int], hints: Hints) -> Worker:
        """Of several candidates that are not hot, the one to take."""
        if self._scores:
            tokens = len(hints.tokens) if hints.tokens else len(hints.text) / CHARS_PER_TOKEN
            workers = self._score.best(workers, overlaps, tokens, self._ctx.rng)
        return self._waits.least(workers, self._ctx.rng)

    def _cool(self, candidates: Collection[Worker], workers: Sequence[Worker]) -> list[Worker]:
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


def _index_of(options: CacheAwareOptions, ctx: PolicyContext) -> PrefixIndex:
    if options.cache_index == "hash":
        return HeadIndex(options.cache_boundaries, options.cache_ttl_secs, ctx.now)
    return TreeIndex(options.max_tree_size, options.block_size, options.cache_threshold)
