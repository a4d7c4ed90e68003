"""What control calls leave in metrics and log. A call that was cancelled leaves nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from smg.control.rl.answers import Answered, Outcome, Report
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


class ControlAccounts:
    """Counts and logs what the control plane does."""

    def __init__(self, metrics: Metrics) -> None:
        self._calls = metrics.rl_control_calls
        self._call_durations = metrics.rl_control_call_duration_seconds
        self._fanouts = metrics.rl_fanout
        self._fanout_durations = metrics.rl_fanout_duration_seconds

    def called(self, path: str, result: Result, took_secs: float) -> None:
        """An engine was called."""
        operation = path if path in OPERATIONS else "other"
        self._calls.labels(operation, result).inc()
        self._call_durations.labels(operation).observe(took_secs)

    @staticmethod
    def called_for(method: str, path: str, outcomes: Sequence[Outcome]) -> None:
        """Log the engines that answered a trainer, once it has what it waits for."""
        for outcome in outcomes:
            if isinstance(outcome, Answered):
                log.info(
                    "rl.proxy",
                    worker_id=outcome.worker.id,
                    url=outcome.worker.url,
                    method=method,
                    path=path,
                    status=outcome.status,
                    latency_ms=outcome.latency_ms,
                )

    def nobody_matched(self, took_secs: float) -> None:
        """A fan-out found no target."""
        self._fanned_out("no_match", took_secs)

    def fanned_out(self, path: str, selector: str, report: Report, took_secs: float) -> None:
        """A fan-out has called all its targets."""
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
