"""How much a worker's share of a prompt counts for, once its backlog and a wish for variety are weighed in.

Two settings, both off at 0. *Decay* discounts a known beginning by the work that waits at its worker beyond the
candidate with the least: `overlap / (1 + decay * excess)`, where the excess is counted in requests like this one. It
needs load reports; a worker without one counts as idle. *Temperature* draws instead of taking the best: scores are
stretched to 0..1, and a softmax over them gives the chances. Near 0 the best wins, far above 1 all are alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp
from random import Random

from smg.fleet.expected_wait import WaitTuning
from smg.fleet.worker import Worker

_MEAN_PREFILL_TOKENS = WaitTuning().mean_prefill_tokens


@dataclass(frozen=True, slots=True)
class OverlapScore:
    """`decay` and `temperature`, as above."""

    decay: float = 0.0
    temperature: float = 0.0

    @property
    def applies(self) -> bool:
        """Whether anything is weighed in at all."""
        return self.decay > 0 or self.temperature > 0

    def best(
        self, workers: Sequence[Worker], overlaps: Mapping[Worker, int], request_tokens: float, rng: Random
    ) -> list[Worker]:
        """The workers that deserve a prompt of `request_tokens`: those of the best score, or one drawn.

        `overlaps` has the known length of the prompt for each of the workers, in one unit.
        """
        scores = self._scores(workers, overlaps, request_tokens)
        if self.temperature > 0:
            return [rng.choices(workers, _chances(scores, self.temperature))[0]]
        best = max(scores)
        return [worker for worker, score in zip(workers, scores, strict=True) if score == best]

    def _scores(self, workers: Sequence[Worker], overlaps: Mapping[Worker, int], request_tokens: float) -> list[float]:
        if not self.decay:
            return [overlaps[worker] for worker in workers]
        backlogs = [_backlog_tokens(worker) for worker in workers]
        least, unit = min(backlogs), max(request_tokens, 1.0)
        return [
            overlaps[worker] / (1 + self.decay * (backlog - least) / unit)
            for worker, backlog in zip(workers, backlogs, strict=True)
        ]


def _backlog_tokens(worker: Worker) -> int:
    """Prompt tokens that wait at a worker: as reported, and what was sent since."""
    report = worker.report
    if report is None:
        return 0
    queued = report.waiting_uncached_tokens
    if queued is None:
        queued = report.waiting_requests * _MEAN_PREFILL_TOKENS
    return queued + worker.dispatched_tokens


def _chances(scores: Sequence[float], temperature: float) -> list[float]:
    """The weights of a softmax over the scores, stretched to 0..1; the best one weighs 1."""
    best = max(scores)
    spread = (best - min(scores)) * temperature
    return [exp((score - best) / spread) for score in scores] if spread else [1.0] * len(scores)
