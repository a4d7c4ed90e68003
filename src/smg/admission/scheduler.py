"""The priority scheduler: slots for requests of four classes, their queues, reservations and preemption.

A ticket stands for a request. Its states, and what moves it:

    new      arrive: a slot is free for its class -> running; its queue has room, or it found a victim -> waiting;
             else it is over (refused)
    waiting  a slot comes to it (depart, resize, advance) -> running; it waited too long (advance), or gave up
             (abandon) -> over
    running  depart -> over

Each class may reserve slots: what it does not use of them is kept free from the classes below it. So the slots free for
a class are those not taken, less the idle reservations of all classes above. A free slot goes to the highest class that
may have it, within a class to who came first. A ticket at the head of its queue for longer than its class's starvation
threshold goes before all that, into any slot that is free, reserved or not.

A ticket that finds no slot may preempt: it waits, and its victim's slot passes to its class as soon as the victim has
departed, to whoever waits longest there. The victim is of a lower class and not yet answered: of the lowest class that
has one, the newest. There is at most one, only where one slot is enough, and only while nobody of a higher class waits
with nothing in prospect. A ticket that was admitted because it starved is nobody's victim, or the guard would be worth
nothing.

Time is passed in; waking whoever waits and ending a victim is the shell's part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from math import ceil
from typing import Generic, TypeVar

from smg.config.scheduler_rules import ClassRules, Priority


class State(Enum):
    """Where a ticket is in its life."""

    NEW = auto()
    WAITING = auto()
    RUNNING = auto()
    OVER = auto()


@dataclass(slots=True, eq=False)
class Ticket:
    """One request before the scheduler, which is the only one to change it.

    `arrived_at` is when it arrived, `promoted` says that it was admitted because it starved. A waiting ticket may have
    a `victim` whose slot is meant for it; that one's `preemptor` then leads back.
    """

    priority: Priority
    state: State = State.NEW
    arrived_at: float = 0.0
    promoted: bool = False
    victim: Ticket | None = field(default=None, repr=False)
    preemptor: Ticket | None = field(default=None, repr=False)


T = TypeVar("T", bound=Ticket)


@dataclass(slots=True)
class ClassState(Generic[T]):
    """A class at the moment.

    `reserved` is what it reserves of the present capacity, `running` how many slots it has. `waiting` is its queue, of
    which `promised` tickets have a victim. `candidates` are its running tickets that may be victims, the newest last.
    """

    rules: ClassRules
    reserved: int = 0
    running: int = 0
    promised: int = 0
    waiting: dict[T, None] = field(default_factory=dict)
    candidates: dict[T, None] = field(default_factory=dict)

    @property
    def head(self) -> T | None:
        """Who has waited longest."""
        return next(iter(self.waiting), None)

    @property
    def full(self) -> bool:
        """Whether nobody more may wait; those with a victim do not take a place."""
        return len(self.waiting) - self.promised >= self.rules.queue_size


# The classes that can starve, in the order in which they are helped; nobody goes before the highest one.
_STARVING = (Priority.BULK, Priority.DEFAULT, Priority.INTERACTIVE)


def _wanted(rules: ClassRules, capacity: int) -> int:
    """What a class reserves where nobody else does."""
    # Rounded first: a tenth of 70 is 7 slots, not the 7.000000000000001 that doubles make of it.
    share = ceil(round(rules.reserved_per_slot * capacity, 6))
    return min(capacity, max(rules.reserved_floor, share))


class Scheduler(Generic[T]):
    """All slots and queues.

    `preemptable` tells whether a running ticket may still be a victim; once it says no, it must stay so. `clamped` says
    that the classes want to reserve more than there is: each then has the same fraction of what it wants, so that what
    is meant for a large fleet leaves room for everybody in a small one.
    """

    def __init__(self, rules: Mapping[Priority, ClassRules], capacity: int, preemptable: Callable[[T], bool]) -> None:
        self.classes: tuple[ClassState[T], ...] = tuple(ClassState(rules[priority]) for priority in Priority)
        self._preemptable = preemptable
        self.in_flight = 0
        self.waiting = 0
        self.capacity = 0
        self.clamped = False
        self._reserve(capacity)

    # --- what happens to tickets

    def arrive(self, ticket: T, now: float) -> bool:
        """A new ticket comes; False if it is refused. Its state says whether it runs or waits.

        If it has a victim now, that one must be made to depart.
        """
        own = self.classes[ticket.priority]
        ticket.arrived_at = now
        if self.free(ticket.priority) > 0:  # then nobody waits for it, and nobody is overtaken
            self._admit(ticket)
            return True
        victim = self._victim_of(ticket.priority)
        if victim is None and own.full:
            ticket.state = State.OVER
            return False
        ticket.state = State.WAITING
        own.waiting[ticket] = None
        self.waiting += 1
        if victim is not None:
            self._promise(ticket, victim)
        return True

    def depart(self, ticket: T, now: float) -> list[T]:
        """A running ticket is done. Returns those that run from now on."""
        own = self.classes[ticket.priority]
        own.running -= 1
        own.candidates.pop(ticket, None)
        self.in_flight -= 1
        ticket.state = State.OVER
        heir = self._heir_of(ticket)
        if heir is None:
            return self._drain(now) if self.waiting else []
        inherited = [heir] if self.free(heir.priority) > 0 else []
        for admitted in inherited:
            self._leave_queue(admitted)
            self._admit(admitted)
        return inherited + self._drain(now)

    def abandon(self, ticket: T) -> None:
        """A waiting ticket gives up. Its victim, if it has one, departs for nobody in particular."""
        self._leave_queue(ticket)
        ticket.state = State.OVER

    # --- what time and the fleet do

    def advance(self, now: float) -> tuple[list[T], list[T]]:
        """Those that run from now on because they starved, and those whose wait is over without a slot."""
        granted = self._drain(now)
        expired: list[T] = []
        for one in self.classes:
            while (head := one.head) is not None and head.arrived_at + one.rules.queue_timeout_secs <= now:
                self.abandon(head)
                expired.append(head)
        return granted, expired

    def due_at(self) -> float | None:
        """When `advance` will next have something to do; None while nobody waits."""
        due: list[float] = []
        for priority, one in enumerate(self.classes):
            head = one.head
            if head is not None:
                due.append(head.arrived_at + one.rules.queue_timeout_secs)
                if self.in_flight < self.capacity and priority in _STARVING:
                    due.append(head.arrived_at + one.rules.starvation_threshold_secs)
        return min(due, default=None)

    def resize(self, capacity: int, now: float) -> list[T]:
        """There are that many slots from now on; returns those that run from now on. Whoever runs stays."""
        self._reserve(capacity)
        return self._drain(now)

    def free(self, priority: Priority) -> int:
        """The slots that a class may take; below zero when those above it miss some of theirs."""
        free = self.capacity - self.in_flight
        for above in self.classes[:priority]:
            idle = above.reserved - above.running
            if idle > 0:
                free -= idle
        return free

    def pressure(self, priority: Priority) -> float:
        """How full it is for a class, from 0 to 1: the larger share, of the slots open to it or of its queue."""
        own = self.classes[priority]
        open_slots = self.capacity - sum(above.reserved for above in self.classes[:priority])
        slots = 1 - max(0, self.free(priority)) / open_slots if open_slots > 0 else 1.0
        queue = len(own.waiting) / own.rules.queue_size if own.rules.queue_size else 0.0
        return min(1.0, max(slots, queue))

    # --- slots

    def _admit(self, ticket: T) -> None:
        own = self.classes[ticket.priority]
        own.running += 1
        self.in_flight += 1
        ticket.state = State.RUNNING
        if not ticket.promoted:
            own.candidates[ticket] = None

    def _drain(self, now: float) -> list[T]:
        """Give the free slots to those that wait."""
        granted: list[T] = []
        while self.waiting and self.in_flight < self.capacity:
            ticket = self._starved(now) or self._next()
            if ticket is None:
                break
            self._leave_queue(ticket)
            self._admit(ticket)
            granted.append(ticket)
        return granted

    def _starved(self, now: float) -> T | None:
        for priority in _STARVING:
            one = self.classes[priority]
            head = one.head
            if head is not None and head.arrived_at + one.rules.starvation_threshold_secs <= now:
                head.promoted = True
                return head
        return None

    def _next(self) -> T | None:
        for priority in Priority:
            head = self.classes[priority].head
            if head is not None and self.free(priority) > 0:
                return head
        return None

    def _leave_queue(self, ticket: T) -> None:
        own = self.classes[ticket.priority]
        del own.waiting[ticket]
        self.waiting -= 1
        if ticket.victim is not None:
            own.promised -= 1
            ticket.victim.preemptor = None
            ticket.victim = None

    def _reserve(self, capacity: int) -> None:
        """Set the capacity, and what the classes reserve of it: all they want, or the same fraction of that."""
        wanted = [_wanted(one.rules, capacity) for one in self.classes]
        total = sum(wanted)
        self.capacity = capacity
        self.clamped = total > capacity
        for one, slots in zip(self.classes, wanted, strict=True):
            one.reserved = slots * capacity // total if self.clamped else slots

    # --- preemption

    def _victim_of(self, priority: Priority) -> T | None:
        """Whose slot a newcomer may take, if anybody's; that one is no candidate any more."""
        if not self.classes[priority].rules.can_preempt or self.free(priority) != 0:
            return None
        if any(len(one.waiting) > one.promised for one in self.classes[:priority]):
            return None
        for one in self.classes[:priority:-1]:
            while one.candidates:
                newest, _ = one.candidates.popitem()
                if self._preemptable(newest):
                    return newest
        return None

    def _promise(self, ticket: T, victim: T) -> None:
        ticket.victim = victim
        victim.preemptor = ticket
        self.classes[ticket.priority].promised += 1

    def _heir_of(self, victim: T) -> T | None:
        """Who gets a victim's slot: whoever waits longest in the class of its preemptor.

        If that is somebody else with a victim of its own, the preemptor takes that promise over.
        """
        preemptor = victim.preemptor
        if preemptor is None:
            return None
        own = self.classes[preemptor.priority]
        victim.preemptor = preemptor.victim = None
        own.promised -= 1
        heir = own.head
        assert heir is not None
        if heir is not preemptor and heir.victim is not None:
            other, heir.victim = heir.victim, None
            preemptor.victim, other.preemptor = other, preemptor
        return heir
