"""What the priority scheduler leaves in the metrics. The series of every class are looked up once and kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from smg.admission.scheduler import Scheduler, T
from smg.config.scheduler_rules import Priority
from smg.telemetry.instruments import Counter
from smg.telemetry.metrics import Metrics


class SchedulerAccounts:
    """Counts what becomes of requests. `tenant_label` gives the label of a tenant, of which there are few."""

    def __init__(self, metrics: Metrics, tenant_label: Callable[[str], str]) -> None:
        self._metrics = metrics
        self._tenant_label = tenant_label
        self._admitted = self._outcome("admitted")
        self._full = self._outcome("rejected_queue_full")
        self._late = self._outcome("rejected_queue_timeout")
        self._preempted = self._outcome("preempted")
        self._left = self._outcome("client_cancelled")
        self._waits = [metrics.scheduler_queue_wait_seconds.labels(p.label) for p in Priority]
        self._promotions = [metrics.scheduler_starvation_promotion.labels(p.label) for p in Priority]
        self._allowed = metrics.http_rate_limit.labels("allowed")
        self._rejected = metrics.http_rate_limit.labels("rejected")

    def watch(self, scheduler: Scheduler[T]) -> None:
        """Show a scheduler's state whenever a scrape asks."""
        metrics = self._metrics
        for priority, one in zip(Priority, scheduler.classes, strict=True):
            label = priority.label
            metrics.scheduler_inflight.function(label, read=partial(getattr, one, "running"))
            metrics.scheduler_queue_depth.function(label, read=partial(len, one.waiting))
            metrics.scheduler_queue_size_limit.labels(label).set(one.rules.queue_size)
            metrics.scheduler_class_capacity_pressure.function(label, read=partial(scheduler.pressure, priority))
        metrics.scheduler_utilization.function(read=lambda: scheduler.in_flight / scheduler.capacity)

    def admitted(self, priority: Priority) -> None:
        """A request has its slot."""
        self._admitted[priority].value += 1
        self._allowed.value += 1

    def waited(self, priority: Priority, secs: float, *, promoted: bool) -> None:
        """It had to wait that long for it, or, promoted, starved."""
        self._waits[priority].observe(secs)
        if promoted:
            self._promotions[priority].value += 1

    def refused(self, priority: Priority) -> None:
        """There was no room in its queue, or the rate was reached."""
        self._full[priority].value += 1
        self._rejected.value += 1

    def timed_out(self, priority: Priority) -> None:
        """It waited as long as its class allows."""
        self._late[priority].value += 1
        self._rejected.value += 1

    def left(self, priority: Priority) -> None:
        """Its client left while it waited."""
        self._left[priority].value += 1

    def preempted(self, victim: Priority, by: Priority) -> None:
        """It lost its slot to a higher class."""
        self._preempted[victim].value += 1
        self._metrics.scheduler_preemption.labels(victim.label, by.label).inc()

    def clamped(self, tenant: str, requested: Priority, effective: Priority) -> None:
        """It asked for more than its tenant gets."""
        self._metrics.scheduler_clamp.labels(self._tenant_label(tenant), requested.label, effective.label).inc()

    def unknown_priority(self, tenant: str) -> None:
        """It asked for a class that there is not."""
        self._metrics.scheduler_unknown_priority_value.labels(self._tenant_label(tenant)).inc()

    def _outcome(self, outcome: str) -> list[Counter]:
        return [self._metrics.scheduler_admit.labels(p.label, outcome) for p in Priority]
