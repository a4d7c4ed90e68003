"""Coarse deadlines for many connections at the price of none: one timer, one pass over the living.

A connection on the hot path only stamps a time; whoever is registered here is asked now and then whether something is
due. That costs nothing a request and a few milliseconds a second at ten thousand connections, where a timer a request
would cost every one of them. Deadlines are met within one `interval_secs`.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

MAX_INTERVAL_SECS = 1.0
MIN_INTERVAL_SECS = 0.05


class Sweepable(Protocol):
    """Something with deadlines. `sweep(now)` acts on those that passed; `now` is the loop's clock."""

    def sweep(self, now: float) -> None: ...


def interval_for(*timeouts_secs: float) -> float:
    """A quarter of the shortest timeout, within bounds: what keeps every deadline within 25 % of its value."""
    shortest = min((t for t in timeouts_secs if t > 0), default=4 * MAX_INTERVAL_SECS)
    return max(MIN_INTERVAL_SECS, min(MAX_INTERVAL_SECS, shortest / 4))


class Sweeper:
    """Calls `sweep` on every registered member each interval, while there is one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, interval_secs: float) -> None:
        self._loop = loop
        self._interval_secs = interval_secs
        self._members: set[Sweepable] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, member: Sweepable) -> None:
        self._members.add(member)
        if self._timer is None:
            self._timer = self._loop.call_later(self._interval_secs, self._run)

    def discard(self, member: Sweepable) -> None:
        self._members.discard(member)

    def __len__(self) -> int:
        return len(self._members)

    def members(self) -> tuple[Sweepable, ...]:
        """A stable copy, for callers whose action changes the membership."""
        return tuple(self._members)

    def _run(self) -> None:
        self._timer = None
        now = self._loop.time()
        try:
            for member in tuple(self._members):
                member.sweep(now)
        finally:  # a member that fails costs nobody else their deadlines
            if self._members and self._timer is None:
                self._timer = self._loop.call_later(self._interval_secs, self._run)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
