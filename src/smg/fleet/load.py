"""What is made of an engine's load report: its sums and means, and whether it means that the engine is overloaded.

Overload protection is asked for, by the gateway's flags for all workers or by a worker's own `overload` block for that
one. A worker at or above either threshold is overloaded until a report says otherwise; there is no hysteresis. Polling
engines and setting the flag belong to the load monitor, leaving overloaded workers out to the selection.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum
from typing import NamedTuple

from smg.engines.load import RankLoad
from smg.fleet.worker import LoadReport, Worker

READ_REPORTS = frozenset({"cache_aware", "least_load", "power_of_two"})
"""The policies that place requests by load reports."""


class Thresholds(NamedTuple):
    """What a worker must stay below: waiting requests over all its ranks, and the mean share of its KV caches."""

    waiting_requests: int
    token_usage: float


DEFAULT_THRESHOLDS = Thresholds(waiting_requests=8, token_usage=0.8)


@dataclass(frozen=True, slots=True)
class OverloadOptions:
    """Whether workers are protected that do not ask for it, and the thresholds of those that do not set their own."""

    enabled: bool = False
    thresholds: Thresholds = DEFAULT_THRESHOLDS


def report_of(ranks: Sequence[RankLoad], received_at: float) -> LoadReport:
    """The report that these ranks add up to."""
    usages = [rank.token_usage for rank in ranks if rank.token_usage is not None]
    rates = [rank.gen_throughput for rank in ranks if rank.gen_throughput is not None]
    return LoadReport(
        waiting_requests=sum([rank.num_waiting_reqs for rank in ranks]),
        waiting_uncached_tokens=_total([rank.num_waiting_uncached_tokens for rank in ranks]),
        token_usage=_mean(usages),
        throughput_tokens_per_sec=fsum(rates) if rates else None,
        max_running_requests=_total([rank.max_running_requests or None for rank in ranks]),
        received_at=received_at,
        ranks=tuple(ranks),
    )


def thresholds_of(worker: Worker, options: OverloadOptions) -> Thresholds | None:
    """The thresholds of a worker; None if it is not protected."""
    own = worker.spec.overload if worker.spec is not None else None
    if own is None or (own.waiting_requests is None and own.token_usage is None):
        return options.thresholds if options.enabled else None
    return Thresholds(
        own.waiting_requests or options.thresholds.waiting_requests,
        own.token_usage or options.thresholds.token_usage,
    )


def is_overloaded(report: LoadReport, thresholds: Thresholds) -> bool:
    """Whether a report reaches either threshold."""
    usage = report.token_usage
    return report.waiting_requests >= thresholds.waiting_requests or (
        usage is not None and usage >= thresholds.token_usage
    )


def _mean(values: Sequence[float]) -> float | None:
    """The mean, which no rounding puts outside of the values: ranks that all stand at a threshold reach it."""
    return min(max(fsum(values) / len(values), min(values)), max(values)) if values else None


def _total(values: Iterable[int | None]) -> int | None:
    """The sum; None if a part of it is unknown."""
    known = 0
    for value in values:
        if value is None:
            return None
        known += value
    return known
