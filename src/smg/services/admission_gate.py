"""Where a request waits for its permit: the shell around the admission machines.

The permit is held from `enter` to `leave`, which is the last byte of the answer or the moment the client is
gone. While a request waits its body stays unread, its client held back. These gates treat all exchanges alike; the one
that does not is `scheduler_gate`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from smg.admission.bucket import TokenBucket
from smg.admission.slots import Slots
from smg.errors import GatewayError
from smg.net.exchange import Exchange

Waiter = asyncio.Future[None]

# Timers of the loop count whole milliseconds: one more, or a wait would end a moment before its token is there.
_TICK_SECS = 0.001


class AdmissionGate:
    """The concurrency limit with its queue; `on_rejected` hears "full" or "timeout".

    `allowed` and `rejected` count the decisions; who leaves while waiting is in neither.
    """

    def __init__(
        self, capacity: int, queue_size: int, queue_timeout_secs: float, on_rejected: Callable[[str], None]
    ) -> None:
        self._slots: Slots[Waiter] = Slots(capacity, queue_size)
        self._take = self._slots.take
        self._release = self._slots.release
        self._queue_size = queue_size
        self._queue_timeout_secs = queue_timeout_secs
        self._on_rejected = on_rejected
        self.allowed = 0
        self.rejected = 0

    @property
    def in_flight(self) -> int:
        return self._slots.in_flight

    @property
    def waiting(self) -> int:
        return self._slots.waiting

    def try_enter(self, _exchange: Exchange) -> bool:
        """Take a permit if one is free; the common case, without waiting."""
        if self._take():
            self.allowed += 1
            return True
        return False

    async def enter(self, exchange: Exchange) -> None:
        """Wait for a permit. Raises GatewayError when the queue is full or the wait took too long."""
        waiter: Waiter = asyncio.get_running_loop().create_future()
        if not self._slots.queue(waiter):
            self.rejected += 1
            if self._queue_size:
                self._on_rejected("full")
            raise GatewayError("admission_queue_full", "too many requests are in flight and the queue is full")
        try:
            async with asyncio.timeout(self._queue_timeout_secs):
                await waiter
        except BaseException as error:
            # A permit may have been granted in the same moment: then it is ours to pass on.
            if waiter.done() and not waiter.cancelled():
                self.leave(exchange)
            else:
                self._slots.leave(waiter)
            if isinstance(error, TimeoutError):
                self.rejected += 1
                self._on_rejected("timeout")
                raise GatewayError("admission_queue_timeout", "timed out waiting for an admission slot") from None
            raise
        self.allowed += 1

    def leave(self, _exchange: Exchange) -> None:
        """Give the permit back, or on to who waited longest."""
        while (waiter := self._release()) is not None:
            if not waiter.done():
                waiter.set_result(None)
                return


class RateGate:
    """Requests per second on top of the concurrency limit: a bucket that each request takes one token from."""

    def __init__(
        self, capacity: int, per_sec: float, queue_timeout_secs: float, on_rejected: Callable[[str], None]
    ) -> None:
        self._now = asyncio.get_running_loop().time
        self._bucket = TokenBucket(capacity, per_sec, self._now())
        self._longest_wait_secs = min(queue_timeout_secs, 1 / per_sec)
        self._on_rejected = on_rejected
        self.in_flight = 0
        self.waiting = 0
        self.allowed = 0
        self.rejected = 0

    def try_enter(self, _exchange: Exchange) -> bool:
        if self._bucket.take(1, self._now()):
            self.in_flight += 1
            self.allowed += 1
            return True
        return False

    async def enter(self, exchange: Exchange) -> None:
        """Wait for the next token, but not longer than it takes to refill one."""
        wait_secs = self._bucket.wait_secs(1, self._now())
        if wait_secs is None or wait_secs > self._longest_wait_secs:
            self.rejected += 1
            self._on_rejected("full")
            raise GatewayError("admission_queue_full", "the rate limit is reached")
        self.waiting += 1
        try:
            await asyncio.sleep(wait_secs + _TICK_SECS)
        finally:
            self.waiting -= 1
        if not self.try_enter(exchange):
            self.rejected += 1
            self._on_rejected("timeout")
            raise GatewayError("admission_queue_timeout", "timed out waiting for an admission slot")

    def leave(self, _exchange: Exchange) -> None:
        self.in_flight -= 1
