"""What probes mean for a worker's status: a small machine over counts of good and bad probes.

    status     moves up to             moves down to
    pending    ready, S good in a row  failed, when P probes did not achieve that
    ready                              not_ready, F bad in a row
    not_ready  ready, S good in a row  failed, 3 F bad in a row
    failed     ready, S good in a row
    draining

S is `success_threshold`, F `failure_threshold`, P is 10 F. Counts start anew with every move. The status
itself belongs to the registry: the machine is told it with every probe, and starts anew when somebody else
moved it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from smg.fleet.spec import HealthSpec
from smg.fleet.worker import Status, Worker


@dataclass(frozen=True, slots=True)
class HealthOptions:
    """How a worker is probed and judged, and how long it settles when it leaves (0 = leaves at once)."""

    interval_secs: float = 60.0
    timeout_secs: float = 5.0
    success_threshold: int = 2
    failure_threshold: int = 3
    enabled: bool = True
    drain_settle_secs: float = 5.0


# A worker's own field, and the option it replaces.
_OVERRIDES = (
    ("check_interval_secs", "interval_secs"),
    ("timeout_secs", "timeout_secs"),
    ("success_threshold", "success_threshold"),
    ("failure_threshold", "failure_threshold"),
    ("drain_settle_secs", "drain_settle_secs"),
)


def health_options(defaults: HealthOptions, worker: Worker) -> HealthOptions:
    """The options of one worker: the gateway's, with its own laid over them.

    A provider outside the fleet has no health route to speak of, so it is probed only when its spec asks
    for it.
    """
    own = worker.spec.health if worker.spec is not None else HealthSpec()
    options = {option: value for name, option in _OVERRIDES if (value := getattr(own, name)) is not None}
    enabled = defaults.enabled and worker.runtime != "external"
    if own.disable_health_check is not None:
        enabled = not own.disable_health_check
    return replace(defaults, enabled=enabled, **options)


@dataclass(frozen=True, slots=True)
class _Rule:
    """Where good probes lead, and where bad ones do: after `patience` times the failure threshold.

    With `counts_all`, the good probes use up patience too.
    """

    up: Status | None = None
    down: Status | None = None
    patience: int = 0
    counts_all: bool = False


_RULES: dict[Status, _Rule] = {
    Status.PENDING: _Rule(up=Status.READY, down=Status.FAILED, patience=10, counts_all=True),
    Status.READY: _Rule(down=Status.NOT_READY, patience=1),
    Status.NOT_READY: _Rule(up=Status.READY, down=Status.FAILED, patience=3),
    Status.FAILED: _Rule(up=Status.READY),
    Status.DRAINING: _Rule(),
}


class HealthMachine:
    """The probe counts of one worker."""

    __slots__ = ("_bad", "_good", "_probes", "_status")

    def __init__(self) -> None:
        self._status: Status | None = None
        self._probes = 0
        self._good = 0
        self._bad = 0

    def feed(self, status: Status, options: HealthOptions, *, good: bool) -> Status | None:
        """Take in one probe of a worker in `status`; the status to move it to, or None to leave it."""
        if status is not self._status:
            self._start(status)
        self._probes += 1
        self._good = self._good + 1 if good else 0
        self._bad = 0 if good else self._bad + 1
        target = self._target(_RULES[status], options)
        if target is not None:
            self._start(target)
        return target

    def _start(self, status: Status) -> None:
        self._status = status
        self._probes = self._good = self._bad = 0

    def _target(self, rule: _Rule, options: HealthOptions) -> Status | None:
        if rule.up is not None and self._good >= options.success_threshold:
            return rule.up
        spent = self._probes if rule.counts_all else self._bad
        if rule.down is not None and spent >= rule.patience * options.failure_threshold:
            return rule.down
        return None
