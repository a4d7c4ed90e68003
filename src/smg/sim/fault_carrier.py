"""Faults in how an answer travels: a reply that loses, garbles or delays what is written to it.

The engine behind it works as ever. Events are counted at their blank lines; whole answers count as one event.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from smg.sim.faults import Fault
from smg.sim.reply import Reply

GARBAGE_EVENT = b'data: {"id": "garbled\n\n'
GARBAGE_BODY = b'{"id": "garbled'

_SLOW_PIECES = 8


class Line(Reply, Protocol):
    """What an answer travels on: an exchange, or a session."""

    streaming: bool

    def abort(self) -> None:
        """Cut the connection."""

    async def drain(self) -> None:
        """Wait while the other end reads more slowly than we write."""


class FaultCarrier:
    """Carries one answer to an exchange as a fault says. Once the client gets no more of it, `work` is cancelled."""

    def __init__(self, fault: Fault, exchange: Line) -> None:
        self._fault = fault
        self._exchange = exchange
        self._events = 0
        self._held: list[bytes] = []
        self.cut = False
        self.work: asyncio.Future[None] | None = None

    def answer(self, status: int, body: bytes = b"", content_type: bytes = b"application/json") -> None:
        kind, exchange = self._fault.kind, self._exchange
        half = body[: len(body) // 2]
        if kind == "truncate":
            exchange.answer(status, half, content_type)
        elif kind == "garbage":
            exchange.answer(status, GARBAGE_BODY, content_type)
        elif kind == "reset":
            exchange.start(status, content_type)
            exchange.write(half)
            exchange.abort()
        else:
            exchange.start(status, content_type)
            size = max(1, -(-len(body) // _SLOW_PIECES))
            self._held += [body[at : at + size] for at in range(0, len(body), size)]

    def start(self, status: int, content_type: bytes = b"text/event-stream") -> None:
        self._exchange.start(status, content_type)

    def write(self, piece: bytes) -> None:
        for event in piece.split(b"\n\n"):
            if event and not self.cut:
                self._carry(event + b"\n\n")

    def end(self) -> None:
        if not self.cut and self._fault.kind != "slow_body":
            self._exchange.end()

    async def settle(self) -> None:
        """Send what was held back, piece by piece. Called when the engine is done with the answer."""
        if self._fault.kind != "slow_body" or not self._exchange.streaming:
            return
        for piece in self._held:
            self._exchange.write(piece)
            await self._exchange.drain()
            await asyncio.sleep(self._fault.ms / 1000)
        self._exchange.end()

    def _carry(self, event: bytes) -> None:
        kind, exchange = self._fault.kind, self._exchange
        due = self._events == self._fault.after_events
        self._events += 1
        if kind == "slow_body":
            self._held.append(event)
        elif not due:
            exchange.write(event)
        elif kind == "garbage":
            exchange.write(GARBAGE_EVENT)
        else:
            self.cut = True
            if kind == "truncate":
                exchange.end()
            else:
                exchange.abort()
            if self.work is not None:
                self.work.cancel()
