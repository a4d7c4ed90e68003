"""The priority scheduler's gate: the shell that wakes who waits, ends who is preempted, and keeps the time.

A slot is held from `enter` to `leave`, as a permit is at the other gates. A request that is preempted has its task
cancelled, with the reason noted on its exchange: whoever runs the task answers with that. Nothing is preempted once
the head of its answer is on its way.

One timer serves all who wait: it is set to the next moment at which the scheduler has something to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from smg.admission.bucket import TokenBucket
from smg.admission.scheduler import Scheduler, State, Ticket
from smg.config.scheduler_rules import PRIORITIES, Priority, SchedulerRules
from smg.errors import GatewayError
from smg.net.exchange import Exchange
from smg.services.scheduler_accounts import SchedulerAccounts
from smg.telemetry.logs import get_logger

log = get_logger("smg.services.scheduler")

PRIORITY_HEADER = b"x-smg-priority"

RESIZE_SECS = 1.0

_BY_HEADER = {name.encode(): priority for name, priority in PRIORITIES.items()}
# Timers of the loop count whole milliseconds: one more, or they would come a moment too early.
_TICK_SECS = 0.001


@dataclass(slots=True, eq=False, kw_only=True)
class _Visit(Ticket):
    """One exchange at the gate: the task that serves it and, while it waits, what wakes it; False if in vain."""

    exchange: Exchange
    task: asyncio.Task[Any]
    woken: asyncio.Future[bool] | None = field(default=None, repr=False)


def _is_unanswered(visit: _Visit) -> bool:
    return not visit.exchange.status


class SchedulerGate:
    """Admits exchanges by their class.

    `capacity` tells how many slots there are, and is asked again at every `resize`. `default_ceiling` is the highest
    class of tenants without one of their own. With `rate`, each request takes a token from that bucket first.
    """

    def __init__(
        self,
        rules: SchedulerRules,
        default_ceiling: Priority,
        capacity: Callable[[], int],
        accounts: SchedulerAccounts,
        rate: TokenBucket | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._ceilings = rules.max_class
        self._default_ceiling = default_ceiling
        self._capacity = capacity
        self._accounts = accounts
        self._rate = rate
        self._visits: dict[Exchange, _Visit] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._scheduler: Scheduler[_Visit] = Scheduler(rules.classes, capacity(), _is_unanswered)
        self._warned = False
        self._warn_if_clamped()
        accounts.watch(self._scheduler)

    @property
    def in_flight(self) -> int:
        return self._scheduler.in_flight

    @property
    def waiting(self) -> int:
        return self._scheduler.waiting

    # --- the gate

    def try_enter(self, exchange: Exchange) -> bool:
        """Take a slot if one is free for the exchange's class. Raises GatewayError if there is no room to wait."""
        now = self._now()
        priority = self._priority_of(exchange)
        if self._rate is not None and not self._rate.take(1, now):
            self._refuse(priority, "the rate limit is reached")
        visit = _Visit(priority, exchange=exchange, task=cast("asyncio.Task[Any]", asyncio.current_task(self._loop)))
        if not self._scheduler.arrive(visit, now):
            self._refuse(priority, f"too many {priority.label} requests are waiting")
        self._visits[exchange] = visit
        if visit.state is State.RUNNING:
            self._accounts.admitted(priority)
            return True
        visit.woken = self._loop.create_future()
        if visit.victim is not None:
            self._preempt(cast("_Visit", visit.victim), visit)
        self._set_timer()
        return False

    async def enter(self, exchange: Exchange) -> None:
        """Wait for a slot. Raises GatewayError when that takes too long."""
        visit = self._visits[exchange]
        assert visit.woken is not None
        try:
            admitted = await visit.woken
        except BaseException:
            self._give_up(visit)
            raise
        if not admitted:
            del self._visits[exchange]
            raise GatewayError("scheduler_queue_timeout", "timed out waiting for a slot of the priority scheduler")
        self._accounts.admitted(visit.priority)
        self._accounts.waited(visit.priority, self._now() - visit.arrived_at, promoted=visit.promoted)

    def leave(self, exchange: Exchange) -> None:
        """Give the slot back, or on to who is next."""
        self._wake(self._scheduler.depart(self._visits.pop(exchange), self._now()))
        if self._scheduler.waiting:
            self._set_timer()

    def resize(self) -> None:
        """The fleet has changed, and with it how many slots there are."""
        capacity = self._capacity()
        if capacity != self._scheduler.capacity:
            self._wake(self._scheduler.resize(capacity, self._now()))
            self._set_timer()
            self._warn_if_clamped()

    async def run(self) -> None:
        """Ask for the capacity again and again: engines report new numbers without the fleet changing."""
        while True:
            await asyncio.sleep(RESIZE_SECS)
            self.resize()

    # --- classes

    def _priority_of(self, exchange: Exchange) -> Priority:
        """The class that an exchange asks for, or the highest that its tenant gets."""
        tenant = exchange.tenant
        requested = Priority.DEFAULT
        wish = exchange.headers.get(PRIORITY_HEADER)
        if wish is not None:
            named = _BY_HEADER.get(wish.strip().lower())
            if named is None:
                self._accounts.unknown_priority(tenant)
            else:
                requested = named
        ceiling = self._ceilings.get(tenant, self._default_ceiling)
        if requested >= ceiling:
            return requested
        self._accounts.clamped(tenant, requested, ceiling)
        return ceiling

    # --- endings

    def _refuse(self, priority: Priority, message: str) -> None:
        self._accounts.refused(priority)
        raise GatewayError("scheduler_queue_full", message)

    def _preempt(self, victim: _Visit, by: _Visit) -> None:
        """End a request that nothing has been answered to; its slot comes back when its task has ended."""
        self._accounts.preempted(victim.priority, by.priority)
        reason = f"preempted by a request of the class {by.priority.label} before anything was answered"
        victim.exchange.cut_short = GatewayError("scheduler_preempted", reason)
        victim.task.cancel()

    def _give_up(self, visit: _Visit) -> None:
        """The wait was broken off: the client left, or a slot came in the same moment and was taken away again."""
        del self._visits[visit.exchange]
        if visit.exchange.cut_short is None and visit.state is not State.OVER:
            self._accounts.left(visit.priority)
            visit.exchange.error_code = "scheduler_client_cancelled"
        if visit.state is State.RUNNING:
            self._wake(self._scheduler.depart(visit, self._now()))
        elif visit.state is State.WAITING:
            self._scheduler.abandon(visit)

    # --- time

    def _wake(self, admitted: Iterable[_Visit]) -> None:
        for visit in admitted:
            self._tell(visit, admitted=True)

    @staticmethod
    def _tell(visit: _Visit, *, admitted: bool) -> None:
        # Who was cancelled in this moment finds its state changed when it gives up.
        if visit.woken is not None and not visit.woken.done():
            visit.woken.set_result(admitted)

    def _set_timer(self) -> None:
        """Come back when something is due. A timer that is set for earlier does no harm: it sets itself anew."""
        due_at = self._scheduler.due_at()
        if due_at is None:
            return
        if self._timer is not None:
            if self._timer_at <= due_at:
                return
            self._timer.cancel()
        self._timer_at = due_at
        self._timer = self._loop.call_at(due_at + _TICK_SECS, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        admitted, expired = self._scheduler.advance(self._now())
        self._wake(admitted)
        for visit in expired:
            self._accounts.timed_out(visit.priority)
            self._tell(visit, admitted=False)
        self._set_timer()

    def _warn_if_clamped(self) -> None:
        clamped = self._scheduler.clamped
        if clamped and not self._warned:
            log.warning(
                "fewer slots than the classes reserve: each keeps the same fraction of its reservation",
                capacity=self._scheduler.capacity,
                reserved={p.label: one.reserved for p, one in zip(Priority, self._scheduler.classes, strict=True)},
            )
        self._warned = clamped
