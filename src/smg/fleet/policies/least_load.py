"""`least_load`: the candidate with the lowest expected wait.

A cap on waiting requests may rule workers out. What was sent to a worker since its last report counts as
waiting there; workers that do not report cannot be capped. When every worker is at the cap, none is selected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from smg.fleet.expected_wait import ExpectedWait, WaitTuning
from smg.fleet.hints import Hints
from smg.fleet.policies.base import Policy, PolicyContext
from smg.fleet.worker import LoadReport, Worker


@dataclass(frozen=True, slots=True)
class LeastLoadOptions:
    """The formula's assumptions (see `WaitTuning`), and the cap on a worker's waiting requests (0 = none)."""

    least_load_kv_pressure_weight: float = 0.15
    least_load_default_throughput: float = 2000.0
    least_load_mean_prefill_tokens: int = 1024
    least_load_max_waiting_requests: int = 0


class LeastLoad(Policy):
    """Keeps, per reporting worker, the last report and the number of requests it was sent since."""

    name: ClassVar[str] = "least_load"
    options: ClassVar[type] = LeastLoadOptions

    def __init__(self, ctx: PolicyContext, options: LeastLoadOptions | None = None) -> None:
        options = options or LeastLoadOptions()
        self._rng = ctx.rng
        self._cap = options.least_load_max_waiting_requests
        self._waits = ExpectedWait(
            WaitTuning(
                options.least_load_kv_pressure_weight,
                options.least_load_default_throughput,
                options.least_load_mean_prefill_tokens,
            )
        )
        self._sent: dict[str, tuple[LoadReport, int]] = {}

    def select(self, workers: Sequence[Worker], hints: Hints) -> Worker | None:  # noqa: ARG002 - looks at load alone
        """Take the least loaded worker below the cap; None if all are at it."""
        chosen = self._waits.least(workers, self._rng)
        if not self._cap:
            return chosen
        if self._waiting(chosen) >= self._cap:  # only then is it worth asking every worker
            below = [worker for worker in workers if self._waiting(worker) < self._cap]
            if not below:
                return None
            chosen = self._waits.least(below, self._rng)
        if chosen.report is not None:
            self._sent[chosen.url] = (chosen.report, self._sent_to(chosen, chosen.report) + 1)
        return chosen

    def forget(self, url: str) -> None:
        """Drop what was counted for a removed worker."""
        self._waits.forget(url)
        self._sent.pop(url, None)

    def sizes(self) -> dict[str, int]:
        """The number of workers with a count."""
        return {"counted": len(self._sent)}

    def _waiting(self, worker: Worker) -> int:
        report = worker.report
        return 0 if report is None else report.waiting_requests + self._sent_to(worker, report)

    def _sent_to(self, worker: Worker, report: LoadReport) -> int:
        """Requests sent since this report; a new report has seen the earlier ones."""
        counted_for, sent = self._sent.get(worker.url, (report, 0))
        return sent if counted_for is report else 0
