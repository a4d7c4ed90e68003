"""The concurrency limit: permits, and a strict first-come-first-served queue for who finds none.

A freed permit goes to the oldest waiter and to nobody else, so a newcomer never overtakes. The queue's length is a hard
bound. Waiting itself, and giving up after a while, is the shell's part.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

Ticket = TypeVar("Ticket")


class Slots(Generic[Ticket]):
    """`capacity` permits and room for `queue_size` tickets. A ticket is whatever the caller wakes a waiter by."""

    __slots__ = ("_capacity", "_queue", "_queue_size", "in_flight")

    def __init__(self, capacity: int, queue_size: int) -> None:
        self._capacity = capacity
        self._queue_size = queue_size
        self._queue: OrderedDict[Ticket, None] = OrderedDict()
        self.in_flight = 0

    @property
    def waiting(self) -> int:
        """How many tickets are queued."""
        return len(self._queue)

    def take(self) -> bool:
        """Take a permit at once; False when none is free or somebody waits already."""
        if self.in_flight < self._capacity and not self._queue:
            self.in_flight += 1
            return True
        return False

    def queue(self, ticket: Ticket) -> bool:
        """Queue a ticket; False when the queue is full."""
        if len(self._queue) >= self._queue_size:
            return False
        self._queue[ticket] = None
        return True

    def leave(self, ticket: Ticket) -> None:
        """Take a ticket out of the queue: its owner gave up or left."""
        self._queue.pop(ticket, None)

    def release(self) -> Ticket | None:
        """Give a permit back. It passes to the oldest ticket, which is returned to be woken; None if nobody waits."""
        if self._queue:
            return self._queue.popitem(last=False)[0]
        self.in_flight -= 1
        return None
