"""How long a new request would wait at each worker, and which worker keeps it waiting least.

    wait = (queued + dispatched) / throughput + weight * usage / (1 - usage)        in seconds

`queued` are the uncached prompt tokens the engine reported as waiting (or its waiting requests times a mean
prompt), `dispatched` the tokens sent to it since that report, `usage` the share of its KV cache in use: a
nearly full cache makes requests wait for memory however short the queue is. A worker that never reported is
given the best reported wait plus one second a request in flight; when nobody reports, the requests in flight
are compared.

Polling engines and charging a worker for what was sent belong to the load monitor and the lease.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from random import Random

from smg.fleet.worker import LoadReport, Worker

MAX_USAGE = 0.999
"""Usage is clamped here, so that a full cache weighs a thousandfold instead of dividing by zero."""


@dataclass(frozen=True, slots=True)
class WaitTuning:
    """What the formula assumes where reports are silent.

    `kv_pressure_weight` is in seconds, `default_throughput` in tokens a second, `mean_prefill_tokens` a
    prompt's size.
    """

    kv_pressure_weight: float = 0.15
    default_throughput: float = 2000.0
    mean_prefill_tokens: int = 1024


class ExpectedWait:
    """Scores workers by expected wait.

    The part of a score that only a report can change is kept with that report, one entry a worker URL until
    `forget`: with a thousand workers the arithmetic would otherwise outweigh everything else in a selection.
    """

    __slots__ = ("_known", "_tuning")

    def __init__(self, tuning: WaitTuning | None = None) -> None:
        self._tuning = tuning or WaitTuning()
        self._known: dict[str, tuple[LoadReport, float, float]] = {}

    def least(self, workers: Sequence[Worker], rng: Random) -> Worker:
        """The worker with the lowest score; equal ones are drawn from evenly."""
        return lowest(workers, self.scores(workers), rng)

    def scores(self, workers: Sequence[Worker]) -> list[float]:
        """A score for each worker, in order: seconds if any of them reports, else requests in flight."""
        scores: list[float] = []
        append = scores.append
        known = self._known.get
        silent = 0
        for worker in workers:
            report = worker.report
            if report is None:
                silent += 1
                append(inf)
                continue
            entry = known(worker.url)
            if entry is None or entry[0] is not report:
                entry = self._learn(worker.url, report)
            append(entry[1] + entry[2] * worker.dispatched_tokens)
        if not silent:
            return scores
        if silent == len(scores):
            return [worker.load for worker in workers]
        best = min(scores)
        return [
            best + worker.load if worker.report is None else score
            for worker, score in zip(workers, scores, strict=True)
        ]

    def forget(self, url: str) -> None:
        """Drop what is kept of a removed worker."""
        self._known.pop(url, None)

    def _learn(self, url: str, report: LoadReport) -> tuple[LoadReport, float, float]:
        """Split the formula into a constant and a factor for the tokens dispatched since this report."""
        tuning = self._tuning
        queued = report.waiting_uncached_tokens
        if queued is None:
            queued = report.waiting_requests * tuning.mean_prefill_tokens
        # An idle engine reports a throughput of zero, which says nothing about its speed.
        throughput = report.throughput_tokens_per_sec
        if throughput is None or not throughput > 0:
            throughput = tuning.default_throughput
        entry = (report, queued / throughput + self._pressure(report.token_usage), 1 / throughput)
        self._known[url] = entry
        return entry

    def _pressure(self, usage: float | None) -> float:
        if usage is None or not usage > 0:
            return 0.0
        usage = min(usage, MAX_USAGE)
        return self._tuning.kv_pressure_weight * usage / (1 - usage)


def fewest_in_flight(workers: Sequence[Worker], rng: Random) -> Worker:
    """The worker with the fewest requests in flight through this gateway; ties are drawn from evenly."""
    return lowest(workers, [worker.load for worker in workers], rng)


def lowest(workers: Sequence[Worker], scores: Sequence[float], rng: Random) -> Worker:
    """The worker whose score is lowest; exact ties are broken uniformly at random."""
    best = min(scores)
    ties = scores.count(best)
    if ties == 1:
        return workers[scores.index(best)]
    drawn = int(rng.random() * ties)
    if ties == len(workers):
        return workers[drawn]
    return [worker for worker, score in zip(workers, scores, strict=True) if score == best][drawn]
