"""A worker's circuit breaker.

    closed     every request passes; `failure_threshold` failures in a row open it
    open       no request passes; after `timeout_secs` the next look finds it half-open
    half-open  every request passes; `success_threshold` successes in a row close it, one failure opens it again

A request charges a worker at most one failure, however many attempts it made: the dispatch loop sees to that. An
answer of mere capacity is no sample at all; any other that is not a failure counts as a success. Which status is which
stands in `statuses.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


class State(Enum):
    """The value is the one metrics report."""

    CLOSED = 0
    OPEN = 1
    HALF_OPEN = 2


@dataclass(frozen=True, slots=True)
class BreakerOptions:
    """`enabled` false keeps the counts and never opens."""

    failure_threshold: int = 10
    success_threshold: int = 3
    timeout_secs: float = 60.0
    enabled: bool = True


# (worker URL is the listener's business) old state, new state
Transition = Callable[[State, State], None]


class Breaker:
    """One worker's breaker. Times are on one monotonic clock, given by the caller."""

    __slots__ = ("_on_transition", "_open_until", "_options", "failures", "state", "successes")

    def __init__(self, options: BreakerOptions, on_transition: Transition | None = None) -> None:
        self._options = options
        self._on_transition = on_transition
        self._open_until = 0.0
        self.state = State.CLOSED
        self.failures = 0
        self.successes = 0

    def admits(self, now: float) -> bool:
        """Whether a request may pass. An open breaker whose time is over becomes half-open by being asked."""
        if self.state is not State.OPEN:
            return True
        if now < self._open_until:
            return False
        self._move(State.HALF_OPEN)
        return True

    def succeeded(self) -> None:
        """An answer that speaks for the worker."""
        self.failures = 0
        if self.state is State.CLOSED:
            return
        self.successes += 1
        if self.state is State.HALF_OPEN and self.successes >= self._options.success_threshold:
            self._move(State.CLOSED)

    def failed(self, now: float) -> None:
        """A failure of the worker."""
        self.successes = 0
        self.failures += 1
        opens = self.state is State.HALF_OPEN or self.failures >= self._options.failure_threshold
        if opens and self._options.enabled and self.state is not State.OPEN:
            self._open_until = now + self._options.timeout_secs
            self._move(State.OPEN)

    def _move(self, state: State) -> None:
        previous, self.state = self.state, state
        self.successes = 0
        if state is State.CLOSED:
            self.failures = 0
        if self._on_transition is not None:
            self._on_transition(previous, state)
