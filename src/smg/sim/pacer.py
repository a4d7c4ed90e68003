"""The clock that drives a scheduler: one timer an engine, however many tokens and streams there are.

Tokens that are due within one tick appear together, so a fast engine with many streams costs a few hundred wake-ups a
second and a slow one still keeps its exact pace.
"""

from __future__ import annotations

import asyncio
from math import inf

from smg.sim.machine import Machine

TICK_SECS = 0.005
# Re-arming for less than this is not worth a system call; event loops count in milliseconds.
_SLACK_SECS = 0.0005


class Pacer:
    """Ticks a machine's scheduler when something is due. Call `settle` after everything that may change that."""

    def __init__(self, machine: Machine, loop: asyncio.AbstractEventLoop) -> None:
        self.now = loop.time
        self._machine = machine
        self._scheduler = machine.scheduler
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._at = inf
        self._last = -inf
        self._idle: list[asyncio.Future[None]] = []

    def settle(self) -> None:
        """Set the timer for what is due next, and tell those who wait for idleness."""
        if self._idle and self._calm:
            self._tell_idle()
        due = self._scheduler.next_due
        if due == inf:
            return
        at = max(due, self._last + TICK_SECS)
        if self._timer is not None:
            if self._at <= at + _SLACK_SECS:
                return
            self._timer.cancel()
        self._at = at
        self._timer = self._loop.call_at(at, self._tick)

    async def until_calm(self) -> None:
        """Wait until nothing runs, or what runs is frozen."""
        if not self._calm:
            waiter = self._loop.create_future()
            self._idle.append(waiter)
            await waiter

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @property
    def _calm(self) -> bool:
        return self._machine.idle or self._scheduler.frozen

    def _tick(self) -> None:
        self._timer = None
        # A timer may fire a hair early; what it was set for is due all the same.
        self._last = now = max(self.now(), self._at)
        self._scheduler.tick(now)
        self.settle()

    def _tell_idle(self) -> None:
        waiters, self._idle = self._idle, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
