"""The dispatch loop: place, send, judge the answer, and try elsewhere while that is still possible.

Every attempt holds a lease on its worker: one count of load, returned with the last byte of the answer or the moment
the attempt ends, whatever ended it. Nothing is tried again once a byte of an answer is on its way to the client, and a
body that passes through unparsed has one attempt. A request charges a worker's breaker at most once.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from smg.errors import GatewayError, PlacementError, UpstreamError
from smg.fleet.placement import Placement, Placer
from smg.fleet.retry import RetryOptions
from smg.fleet.statuses import ELSEWHERE_STATUSES
from smg.fleet.worker import Worker
from smg.net.exchange import Exchange
from smg.net.reply import Reply
from smg.serving.accounts import CallAccounts
from smg.serving.call import Call
from smg.serving.relay import is_stream, relay_stream, relay_whole
from smg.serving.verdicts import Verdicts


@dataclass(slots=True)
class Attempts:
    """What one request has tried so far, of `most` attempts.

    `avoid` are the workers that let it down. `answer` is a worker's last answer that another attempt was preferred to:
    the client gets it when no further attempt can be made.
    """

    most: int
    made: int = 0
    avoid: tuple[Worker, ...] = ()
    answer: tuple[Reply, bytes, bytes] | None = None

    @property
    def last(self) -> bool:
        """Whether the attempt under way is the last one."""
        return self.made >= self.most


class Upstream(Protocol):
    """The way to a placement."""

    def routed_line(self, worker: Worker) -> bytes:
        """The response header that names the worker."""

    async def send(self, placement: Placement, call: Call, exchange: Exchange) -> Reply:
        """Send a call and wait for the head of its answer. Raises UpstreamError."""


class Dispatcher:
    """Carries calls to workers and their answers back."""

    def __init__(
        self,
        selector: Placer,
        upstream: Upstream,
        retry: RetryOptions,
        accounts: CallAccounts,
        max_answer_bytes: int,
        now: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self._selector = selector
        self._upstream = upstream
        self._retry = retry
        self._accounts = accounts
        self._verdicts = Verdicts(accounts, now)
        self._max_answer_bytes = max_answer_bytes
        self._rng = rng

    async def run(self, exchange: Exchange, call: Call) -> None:
        """Serve a call to its last byte, and keep its accounts. Raises GatewayError when no answer can be given."""
        duration = self._accounts.began(call)
        attempts = Attempts(self._retry.max_attempts if call.body is not None else 1)
        try:
            while not await self._attempt(exchange, call, attempts):
                delay_secs = self._retry.delay_secs(attempts.made - 1, self._rng)
                self._accounts.retried(call, attempts.made, delay_secs)
                await asyncio.sleep(delay_secs)
        except (PlacementError, UpstreamError):
            raise  # the attempt has counted these
        except GatewayError as error:
            self._accounts.refused(call, error)
            raise
        finally:
            duration.observe(time.perf_counter() - exchange.started_at)

    async def _attempt(self, exchange: Exchange, call: Call, attempts: Attempts) -> bool:
        """One attempt; True when the client has its answer, False when another attempt should be made."""
        attempts.made += 1
        try:
            placement = self._selector.place(call.model, call.hints, attempts.avoid)
            self._selector.lease(placement, call.hints)
        except PlacementError as error:
            return self._without_worker(exchange, call, attempts, error)
        try:
            self._accounts.placed(call, placement.worker)
            if placement.prefill is not None:
                self._accounts.placed(call, placement.prefill)
            return await self._call(exchange, call, attempts, placement)
        except UpstreamError as error:
            culprit = _culprit(error, placement.worker)
            if error.status in culprit.statuses.failures:
                self._verdicts.bad(call, culprit)
            self._accounts.lost(call, culprit, error)
            hopeless = error.answered and not self._may_help(call, error.status, culprit)
            if attempts.last or not error.retryable or hopeless:
                self._accounts.exhausted(call, attempts.made)
                raise
            attempts.avoid += (culprit,)
            return False
        finally:
            self._selector.release(placement, call.hints)

    async def _call(self, exchange: Exchange, call: Call, attempts: Attempts, placement: Placement) -> bool:
        """Send to a worker and relay its answer, or keep the answer back while another attempt may do better."""
        worker = placement.worker
        routed_line = self._upstream.routed_line(worker)
        exchange.worker = worker.url
        reply = await self._upstream.send(placement, call, exchange)
        try:
            if call.session is not None and call.session.is_granted:
                self._record(call, worker, reply.status)  # what follows is between the two ends
                await call.session.relay(exchange, routed_line)
                return True
            if is_stream(reply.head):
                await self._stream(exchange, call, worker, reply, routed_line)
                return True
            body = reply.take(self._max_answer_bytes)
            if body is None:
                body = await reply.read(self._max_answer_bytes)
        finally:
            reply.close()
        failed = reply.status in worker.statuses.retryable
        if failed and not attempts.last and self._may_help(call, reply.status, worker):
            self._record(call, worker, reply.status)
            attempts.avoid += (worker,)
            attempts.answer = (reply, body, routed_line)
            return False
        relay_whole(exchange, reply, body, routed_line)  # the client waits for it, the books do not
        self._record(call, worker, reply.status)
        if failed:
            self._accounts.exhausted(call, attempts.made)
        if call.charge is not None:
            call.charge.answered(reply.status, body)
        return True

    async def _stream(self, exchange: Exchange, call: Call, worker: Worker, reply: Reply, routed_line: bytes) -> None:
        broken = await relay_stream(exchange, reply, routed_line, call.charge)
        if broken is None:
            self._record(call, worker, reply.status)
        else:
            culprit = _culprit(broken, worker)
            self._verdicts.bad(call, culprit)
            self._accounts.lost(call, culprit, broken)

    def _without_worker(self, exchange: Exchange, call: Call, attempts: Attempts, error: PlacementError) -> bool:
        """Nobody to send to: the last answer of a worker, if there was one, is better than ours."""
        if attempts.answer is not None:
            self._accounts.exhausted(call, attempts.made)
            relay_whole(exchange, *attempts.answer)
            return True
        if attempts.last or not error.retryable:
            self._accounts.unplaced(call)
            raise error
        return False

    def _may_help(self, call: Call, status: int, worker: Worker) -> bool:
        """Whether another attempt may bring another answer: some failures are worth asking only somebody else."""
        return status not in ELSEWHERE_STATUSES or self._selector.can_place(call.model, besides=worker)

    def _record(self, call: Call, worker: Worker, status: int) -> None:
        """A worker answered, which says something of it."""
        self._accounts.answered(status)
        self._verdicts.judge(call, worker, status)


def _culprit(error: UpstreamError, worker: Worker) -> Worker:
    """Who is to blame: the worker that answers the client, unless the error knows better."""
    return error.worker if isinstance(error.worker, Worker) else worker
