"""What control calls leave in metrics and log. A call that was cancelled leaves nothing."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Literal

from smg.control.rl.answers import Answered, Failed, Outcome, Report
from smg.telemetry.logs import get_logger
from smg.telemetry.metrics import Metrics

log = get_logger("smg_rl")

Result = Literal["ok", "upstream_error", "timeout", "unreachable"]

# Paths that are a label value of their own; callers can invent any number of others.
OPERATIONS: Final = frozenset(
    {
        "pause_generation",
        "continue_generation",
        "update_weights_from_disk",
        "update_weights_from_tensor",
        "update_weights_from_distributed",
        "init_weights_update_group",
        "destroy_weights_update_group",
        "update_weight_version",
        "flush_cache",
        "abort_request",
        "release_memory_occupation",
        "resume_memory_occupation",
        "pause",
        "resume",
        "sleep",
        "wake_up",
        "collective_rpc",
        "server_info",
        "get_server_info",
        "health",
    }
)


RESULTS: Final[dict[str, Result]] = {"upstream_timeout": "timeout", "upstream_unreachable": "unreachable"}
"""What a call that was not answered counts as, by its code. Another code is that of a call that was not made."""

# A line takes longer to write than a call to make, and one fan-out often follows the other. So lines wait a moment, in
# which the next one can set out; then so many are written before somebody else has a turn; and so many may wait.
LINES_WAIT_SECS: Final = 0.005
LINES_A_TURN: Final = 2
MOST_WAITING: Final = 8192


def result_of(outcome: Outcome) -> Result | None:
    """What a call counts as; None if the engine was not called."""
    if isinstance(outcome, Failed):
        return RESULTS.get(outcome.refusal.code)
    return "ok" if outcome.good else "upstream_error"


class ControlAccounts:
    """Counts and logs what the control plane does.

    No trainer waits for that: the counts, and the line of a fan-out, are made in the next turn of the loop, the lines
    of its calls in later ones. `flush` makes at once what is left.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._calls = metrics.rl_control_calls
        self._call_durations = metrics.rl_control_call_duration_seconds
        self._fanouts = metrics.rl_fanout
        self._fanout_durations = metrics.rl_fanout_duration_seconds
        self._uncounted: list[Callable[[], None]] = []
        self._unlogged: deque[dict[str, str | int]] = deque()
        self._logging: asyncio.Handle | None = None

    def called(self, method: str, path: str, outcomes: Sequence[Outcome]) -> None:
        """Engines were called. The engine's path has no leading slash."""
        self._count_soon(partial(self._count_calls, method, path, outcomes))

    def fanned_out(self, path: str, selector: str, report: Report, took_secs: float) -> None:
        """A fan-out has called all its targets."""
        self._count_soon(partial(self._count_fanout, path, selector, report, took_secs))

    def nobody_matched(self, took_secs: float) -> None:
        """A fan-out found no target."""
        self._fanned_out("no_match", took_secs)

    def flush(self) -> None:
        """Count and log what waits for its turn."""
        self._count()
        self._log(len(self._unlogged))
        if self._logging is not None:
            self._logging.cancel()
            self._logging = None

    def _count_soon(self, count: Callable[[], None]) -> None:
        if not self._uncounted:
            asyncio.get_running_loop().call_soon(self._count)
        self._uncounted.append(count)

    def _log_some(self) -> None:
        loop = asyncio.get_running_loop()
        self._log(max(LINES_A_TURN, len(self._unlogged) - MOST_WAITING))
        self._logging = loop.call_soon(self._log_some) if self._unlogged else None

    def _count(self) -> None:
        uncounted, self._uncounted = self._uncounted, []
        for count in uncounted:
            count()
        if self._unlogged and self._logging is None:
            self._logging = asyncio.get_running_loop().call_later(LINES_WAIT_SECS, self._log_some)

    def _count_calls(self, method: str, path: str, outcomes: Sequence[Outcome]) -> None:
        operation = path if path in OPERATIONS else "other"
        for outcome in outcomes:
            result = result_of(outcome)
            if result is not None:
                self._calls.labels(operation, result).inc()
                self._call_durations.labels(operation).observe(outcome.took_secs)
            if isinstance(outcome, Answered):
                self._unlogged.append(_line(method, path, outcome))

    def _count_fanout(self, path: str, selector: str, report: Report, took_secs: float) -> None:
        self._fanned_out("ok" if report.complete else "partial", took_secs)
        log.info(
            "rl.fanout",
            path=path,
            selector=selector,
            total=report.total,
            succeeded=report.succeeded,
            failed=report.total - report.succeeded,
            latency_ms=int(took_secs * 1000),
        )

    def _fanned_out(self, result: str, took_secs: float) -> None:
        self._fanouts.labels(result).inc()
        self._fanout_durations.labels().observe(took_secs)

    def _log(self, most: int) -> None:
        for _ in range(min(most, len(self._unlogged))):
            log.info("rl.proxy", **self._unlogged.popleft())


def _line(method: str, path: str, answer: Answered) -> dict[str, str | int]:
    return {
        "worker_id": answer.worker.id,
        "url": answer.worker.url,
        "method": method,
        "path": path,
        "status": answer.status,
        "latency_ms": answer.latency_ms,
    }
