"""A pair whose legs meet at a rendezvous: both get the request at once, and the client gets decode's answer.

Prefill's answer is read to its end and dropped: closing it early would abort the transfer of the cache. Until both
heads are there, whatever goes wrong with one leg ends the other, so that nobody waits for a rendezvous that will not
come about. From then on decode's answer tells whether prefill's end mattered; if it breaks off after prefill's did,
prefill is to blame. When decode's answer is given up, so is prefill's.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from smg.engines.bootstrap import ranks, rendezvous
from smg.engines.prompt_logprobs import asks_for_logprobs, with_prompt_logprobs
from smg.errors import UpstreamError
from smg.fleet.worker import Worker
from smg.net.exchange import Exchange
from smg.net.reply import Reply
from smg.protocol.body import edit
from smg.protocol.requests import GenerateRequest
from smg.serving.accounts import PairAccounts
from smg.serving.call import Call
from smg.serving.relay import is_stream
from smg.serving.upstreams.legs import LegError, Legs, Watch, abandon, failure, host_of, is_good
from smg.serving.verdicts import Verdicts
from smg.telemetry.logs import get_logger

log = get_logger("smg.serving.upstreams")

_REFUSAL_CODES = {400: "prefill_bad_request", 500: "prefill_internal_error", 503: "prefill_unavailable"}
# How long decode's complete answer waits for prefill's head.
_PATIENCE_SECS = 5.0
_SERVER_ERRORS = 500


class Rendezvous:
    """Sends calls to pairs of engines that meet."""

    def __init__(self, legs: Legs, verdicts: Verdicts, accounts: PairAccounts, rng: random.Random) -> None:
        self._legs = legs
        self._verdicts = verdicts
        self._accounts = accounts
        self._rng = rng

    async def send(self, prefill: Worker, decode: Worker, call: Call, body: bytes, exchange: Exchange) -> Reply:
        """Send a call to both legs; returns decode's answer, complete unless it is a stream. Raises LegError."""
        members = rendezvous(host_of(prefill), prefill.bootstrap_port, call.batch_size, self._rng.getrandbits)
        to_prefill = edit(body, members | ranks(prefill.dp_rank))
        to_decode = edit(body, members | ranks(decode.dp_rank, prefill.dp_rank))
        joins = call.endpoint.kind is GenerateRequest and not call.stream and asks_for_logprobs(body)
        filling = Filling(prefill, call, keeps_body=joins)
        filling.start(self._legs, self._verdicts, self._accounts, to_prefill, exchange)
        decoding = self._legs.start(self._legs.send("decode", decode, call, to_decode, exchange))
        try:
            reply = await self._meet(filling, decode, decoding)
            if not (is_good(reply) and filling.met):
                filling.cancel()  # there is nothing to fill a cache for
                await self._legs.complete(decode, reply)
            elif joins:
                await self._join(filling, decode, reply)
            else:
                began = partial(self._accounts.began, call, prefill, exchange.started_at)
                reply.watcher = Watch(began, filling.let_go)
                await self._complete(filling, decode, reply)
        except BaseException:
            filling.cancel()
            abandon(decoding)
            raise
        return reply

    async def _meet(self, filling: Filling, decode: Worker, decoding: asyncio.Task[Reply]) -> Reply:
        """Wait for both heads, and count a rendezvous that does not come about.

        Returns decode's answer: a refusal at once, a good one when prefill is there too, a stream also when it broke
        off before. Raises the LegError of the leg that failed first.
        """
        try:
            reply = await self._heads(filling, decode, decoding)
        except LegError as error:
            if error.status >= _SERVER_ERRORS:
                self._accounts.unmet()
            raise
        if reply.status >= _SERVER_ERRORS:
            self._accounts.unmet()
        return reply

    async def _heads(self, filling: Filling, decode: Worker, decoding: asyncio.Task[Reply]) -> Reply:
        news = asyncio.Event()
        filling.tell = news.set
        decoding.add_done_callback(lambda _: news.set())
        watch = Watch(lost=lambda _: news.set())
        while True:
            heard = await _hear(news, _PATIENCE_SECS if decoding.done() else None)
            if decoding.done():
                reply = decoding.result()
                if reply.broken is not None:
                    if filling.failed:
                        raise await filling.failure()
                    if is_good(reply) and is_stream(reply.head):
                        return reply  # what has begun is not tried again: the client gets it as far as it came
                    raise failure("decode", decode, reply.broken)
                if filling.met or not is_good(reply) or (reply.complete and not heard):
                    return reply
                reply.watcher = watch
            if filling.failed:
                abandon(decoding)
                raise await filling.failure()

    async def _complete(self, filling: Filling, decode: Worker, reply: Reply) -> None:
        try:
            await self._legs.complete(decode, reply)
        except LegError as error:
            if filling.error is not None:
                raise filling.error from error
            raise

    async def _join(self, filling: Filling, decode: Worker, reply: Reply) -> None:
        """Put what prefill's answer says of the prompt into decode's; both have to be there in full."""

        def end_with_prefill() -> None:
            if filling.error is not None:
                reply.close()

        filling.tell = end_with_prefill
        end_with_prefill()
        await self._complete(filling, decode, reply)
        await filling.ended()
        if filling.error is not None:
            raise filling.error
        answer = await self._legs.read("decode", decode, reply)
        reply.rewrite(with_prompt_logprobs(answer, filling.body))


class Filling:
    """A prefill leg, in a task of its own from its sending to the end of its answer. Its worker's load counts so long.

    `met` says that its head is there, and good; `failed` that its head is bad, or that anything else went wrong with
    it. `tell` is called when one of them changes, and at the end. `body` is the answer's if it is to be kept.
    """

    __slots__ = ("_call", "_keeps_body", "_prefill", "_refused", "_task", "body", "error", "met", "tell")

    _task: asyncio.Task[None]

    def __init__(self, prefill: Worker, call: Call, *, keeps_body: bool) -> None:
        self._prefill = prefill
        self._call = call
        self._keeps_body = keeps_body
        self._refused = False
        self.body = b""
        self.error: BaseException | None = None
        self.met = False
        self.tell: Callable[[], object] = lambda: None

    def start(self, legs: Legs, verdicts: Verdicts, accounts: PairAccounts, body: bytes, exchange: Exchange) -> None:
        """Send this body. The breaker hears of every end but our own."""
        self._task = legs.start(self._run(legs, verdicts, accounts, body, exchange))
        self._prefill.load += 1
        self._task.add_done_callback(self._end)

    @property
    def failed(self) -> bool:
        return self._refused or self.error is not None

    async def ended(self) -> None:
        """Wait for the end, whatever it is."""
        await asyncio.wait({self._task})

    async def failure(self) -> BaseException:
        """What went wrong; reading a refusal takes a moment. Nothing has if the gateway closes meanwhile."""
        await self.ended()
        return self.error or asyncio.CancelledError()

    def cancel(self) -> None:
        """Nobody needs this leg any more; its connection ends if its answer has not."""
        self._task.cancel()

    def let_go(self, error: UpstreamError | None) -> None:
        """Decode's answer will never be complete. If this leg broke off before, it is why."""
        if error is not None and self.error is not None:
            error.worker = self._prefill
        self.cancel()

    async def _run(
        self, legs: Legs, verdicts: Verdicts, accounts: PairAccounts, body: bytes, exchange: Exchange
    ) -> None:
        started_at = time.perf_counter()
        try:
            reply = await legs.send("prefill", self._prefill, self._call, body, exchange)
            try:
                await self._receive(legs, reply)
            finally:
                reply.close()
        except LegError as error:
            self.error = error
            verdicts.failed(self._call, self._prefill, error)
        else:
            verdicts.good(self._prefill)
            accounts.filled(self._call, self._prefill, time.perf_counter() - started_at)

    async def _receive(self, legs: Legs, reply: Reply) -> None:
        self.met = is_good(reply)
        self._refused = not self.met
        self.tell()
        if self._refused:
            raise await legs.refusal(self._prefill, reply, _REFUSAL_CODES)
        if self._keeps_body:
            self.body = await legs.read("prefill", self._prefill, reply)
        else:
            await legs.drain("prefill", self._prefill, reply)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._prefill.load -= 1
        fault = None if task.cancelled() else task.exception()
        if fault is not None:
            self.error = fault
            log.error("a prefill leg failed inside the gateway", worker=self._prefill.url, reason=repr(fault))
        self.tell()


async def _hear(news: asyncio.Event, patience_secs: float | None) -> bool:
    """Wait for news, and whether there were any in time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(patience_secs):
            await news.wait()
    heard = news.is_set()
    news.clear()
    return heard
