"""One leg of a prefill/decode pair: sent over its worker's link, read within bounds, its failures told apart.

A leg that fails is the one to blame: its error names its worker. Which legs there are, and in which order, is decided
in `rendezvous.py` and `transfer.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from smg.errors import UpstreamError, UpstreamTimeout
from smg.fleet.worker import Worker
from smg.net.address import address_of
from smg.net.exchange import Exchange
from smg.net.reply import Reply
from smg.serving.call import Call
from smg.serving.relay import is_stream
from smg.serving.upstreams.http import HttpUpstream

Leg = Literal["prefill", "decode"]
T = TypeVar("T")

_OK = range(200, 300)
_BAD_GATEWAY, _GATEWAY_TIMEOUT = 502, 504
_LOWEST_ERROR = 400
_TOO_LARGE = "upstream_response_too_large"
# Of a prefill engine's refusal the client is shown so much, and nobody waits for more of it than so long.
_SHOWN_BYTES = 2000
_REFUSAL_SECS = 2.0


class LegError(UpstreamError):
    """One leg of a pair failed: `worker` is to blame. `status` is what its engine said if it `answered` at all."""

    def __init__(self, code: str, worker: Worker, message: str, status: int, *, answered: bool = False) -> None:
        super().__init__(code, message)
        self.worker: Worker = worker
        self.answered = answered
        self._status = status

    @property
    def status(self) -> int:
        return self._status

    @property
    def retryable(self) -> bool:
        return not self.answered or self._status in self.worker.statuses.retryable


class LegTimeout(LegError, UpstreamTimeout):  # noqa: N818  the field calls it a timeout
    """One leg of a pair did not answer within its deadline."""


def _ignore(_error: UpstreamError | None = None) -> None:
    """Nobody wants to know."""


@dataclass(slots=True)
class Watch:
    """A watcher of an answer, of two functions."""

    began: Callable[[], None] = _ignore
    lost: Callable[[UpstreamError | None], None] = _ignore


class Legs:
    """Sends legs over the links of an `HttpUpstream`. `is_gone` tells whether a worker has left the registry."""

    def __init__(self, http: HttpUpstream, is_gone: Callable[[Worker], bool], max_answer_bytes: int) -> None:
        self._http = http
        self._is_gone = is_gone
        self._max_answer_bytes = max_answer_bytes
        self._tasks: set[asyncio.Task[Any]] = set()

    async def send(self, leg: Leg, worker: Worker, call: Call, body: bytes, exchange: Exchange) -> Reply:
        """Send a body to a leg; returns the answer once its head is there. Raises LegError."""
        try:
            return await self._http.send_body(worker, call, body, exchange)
        except UpstreamError as error:
            raise failure(leg, worker, error) from error
        finally:
            if self._is_gone(worker):  # it left before its turn came, and its link was made anew
                self._http.drop(worker)

    async def read(self, leg: Leg, worker: Worker, reply: Reply) -> bytes:
        """The whole body of a leg's answer. Raises LegError."""
        body = reply.take(self._max_answer_bytes)
        if body is not None:
            return body
        try:
            return await reply.read(self._max_answer_bytes)
        except UpstreamError as error:
            raise failure(leg, worker, error) from error

    async def complete(self, decode: Worker, reply: Reply) -> None:
        """Wait for all of decode's answer, unless it is a stream. Raises LegError."""
        if not is_stream(reply.head):
            try:
                await self.read("decode", decode, reply)
            finally:
                reply.close()

    async def drain(self, leg: Leg, worker: Worker, reply: Reply) -> None:
        """Read a leg's answer to its end and drop it. Raises LegError."""
        left = self._max_answer_bytes

        def drop(piece: bytes) -> None:
            nonlocal left
            left -= len(piece)
            if left < 0:
                reply.close()  # which breaks it off

        try:
            await reply.pump(drop)
        except UpstreamError as error:
            raise failure(leg, worker, error) from error

    async def refusal(self, prefill: Worker, reply: Reply, codes: Mapping[int, str]) -> LegError:
        """The error of a prefill engine that answered, but not well: its code of `codes` by status, and the beginning
        of what it said. The answer is the caller's to close.
        """
        said = bytearray()

        def note(piece: bytes) -> None:
            said.extend(piece[: _SHOWN_BYTES - len(said)])

        with suppress(TimeoutError, UpstreamError):
            async with asyncio.timeout(_REFUSAL_SECS):
                await reply.pump(note)
        text = f"the prefill worker answered {reply.status}: {said.decode('utf-8', 'replace')}".removesuffix(": ")
        # What is no error to a client of the engine is one to ours.
        status = reply.status if reply.status >= _LOWEST_ERROR else _BAD_GATEWAY
        code = codes.get(status, "prefill_upstream_error")
        return LegError(code, prefill, text, status, answered=True)

    # --- tasks

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a leg in a task of its own, at most until the gateway closes."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """End every leg that is left."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def host_of(worker: Worker) -> str:
    """The host of a worker's address as it stands in a URL: IPv6 in brackets."""
    host = address_of(worker.base_url).host
    return f"[{host}]" if ":" in host else host


def is_good(reply: Reply) -> bool:
    """Whether an engine did what it was asked for."""
    return reply.status in _OK


def abandon(leg: asyncio.Task[Reply]) -> None:
    """Give a leg up, whatever it has come to."""
    leg.cancel()
    leg.add_done_callback(_close)


def _close(leg: asyncio.Task[Reply]) -> None:
    if not leg.cancelled() and leg.exception() is None:
        leg.result().close()


def failure(leg: Leg, worker: Worker, error: UpstreamError) -> LegError:
    """A failure of the way to a leg, as one of the leg's."""
    code = error.code if error.code == _TOO_LARGE else f"{leg}_request_failed"
    message = f"the {leg} worker failed: {error.message}"
    if isinstance(error, UpstreamTimeout):
        return LegTimeout(code, worker, message, _GATEWAY_TIMEOUT)
    return LegError(code, worker, message, _BAD_GATEWAY)
