"""One exchange on a connection that carries many: its request's body going out, its answer coming in.

To whoever reads the answer a stream is the `Carrier` (`net/reply.py`), to a client's body the `Sink` (`net/body.py`).
What it wants of the wire it asks its connection for. Holding a stream back means to give its peer no more window: what
fits into the window may still come.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from smg.errors import GatewayError, UpstreamError, UpstreamTimeout
from smg.net.body import Upload
from smg.net.http1.codec import ResponseHead
from smg.net.reply import Reply

# How much of a piped body may wait for the worker's window before the client is held back.
WAITING_BYTES = 64 * 1024
_NOTHING = memoryview(b"")


class Line(Protocol):
    """The connection, as one of its streams sees it."""

    def send_body(self, stream: Stream) -> None:
        """Send what the stream has, as far as the peer's windows go."""

    def widen(self, stream: Stream, size: int) -> None:
        """Let the peer send so many bytes more on the stream."""

    def drop(self, stream: Stream, *, reset: bool) -> None:
        """The stream is over; `reset` tells the peer so."""


class Stream:
    """One request and its answer. `heard` is what the connection had heard when the request went out.

    `outgoing` is the part of the request's body that has not been sent, `ended` says that nothing is added to it, and
    `sent` that all of it has left.
    """

    __slots__ = (
        "_body",
        "_due",
        "_held",
        "_line",
        "_reply",
        "_waiter",
        "_waiting_bytes",
        "_window_bytes",
        "begun",
        "deadline",
        "ended",
        "heard",
        "id",
        "outgoing",
        "relay_chunk",
        "sent",
    )

    def __init__(
        self, line: Line, stream_id: int, loop: asyncio.AbstractEventLoop, deadline: float, window_bytes: int
    ) -> None:
        self._line = line
        self.id = stream_id
        self.deadline = deadline
        self.heard = 0
        self.begun = False
        self.relay_chunk: Callable[[bytes, int], None] | None = None
        self.outgoing: deque[memoryview] = deque()  # so that cutting a large body into frames copies none of it
        self.ended = True
        self.sent = True
        self._waiting_bytes = 0
        self._body: Upload | None = None
        self._window_bytes = window_bytes
        self._due = 0
        self._held = False
        self._reply: Reply | None = None
        self._waiter: asyncio.Future[Reply] | None = loop.create_future()

    async def answer(self) -> Reply:
        """Wait for the head of the answer; cancelling resets the stream."""
        waiter = self._waiter
        assert waiter is not None
        try:
            return await waiter
        except BaseException:
            if waiter.cancelled():
                self.abort()
            elif waiter.exception() is None:
                waiter.result().close()  # cancelled while the answer came
            self._waiter = None  # it keeps the exception, whose traceback keeps this frame
            del waiter
            raise

    # --- the request's body going out

    def carry(self, content: bytes) -> None:
        """Send these bytes as the whole body."""
        self.outgoing.append(memoryview(content))
        self._waiting_bytes = len(content)
        self.sent = False
        self._line.send_body(self)

    def pipe(self, body: Upload, now: float) -> None:
        """Send the client's body as it comes."""
        self._body = body
        self.ended = self.sent = False
        body.pipe(self, now)

    def upload(self, piece: bytes) -> None:
        body = self._body
        if body is None or not piece:
            return
        self.outgoing.append(memoryview(piece))
        self._waiting_bytes += len(piece)
        self._line.send_body(self)
        if self._waiting_bytes > WAITING_BYTES and body.piped and not body.held:
            body.hold()

    def upload_done(self) -> None:
        self._body = None
        self.ended = True
        self._line.send_body(self)

    def upload_failed(self, error: GatewayError) -> None:
        self._body = None
        self.fail(error)

    def next_piece(self, most: int) -> tuple[memoryview, bool]:
        """Take up to so many bytes to send, and whether they are the last."""
        piece = self.outgoing.popleft() if self.outgoing else _NOTHING
        if len(piece) > most:
            self.outgoing.appendleft(piece[most:])
            piece = piece[:most]
        self._waiting_bytes -= len(piece)
        self.sent = self.ended and not self.outgoing
        return piece, self.sent

    def relieve(self, now: float) -> None:
        """Let the client send on, if little of its body waits; a stall is counted from here."""
        if self._body is not None and self._body.held and self._waiting_bytes <= WAITING_BYTES // 2:
            self._body.last_piece_at = now
            self._body.unhold()

    # --- the answer coming in

    def take_head(self, head: ResponseHead) -> None:
        if self._waiter is None or self._waiter.done():
            self.abort()  # cancelled a moment ago
            return
        self._reply = Reply(head, self)
        self._waiter.set_result(self._reply)

    def take_data(self, data: bytes, size: int, *, last: bool) -> None:
        """Take a piece of the answer that took `size` bytes of the stream's window."""
        if self._reply is None:
            self.fail(UpstreamError("call_upstream_request_error", "the worker's answer has no head"))
            return
        self._due += size
        if data:
            self._reply.feed(data)
        if not last and not self._held:
            self._widen()

    def end(self) -> None:
        """The worker has said all. What it did not want of the request is not sent."""
        reply, self._reply = self._reply, None
        if reply is None:
            self.fail(UpstreamError("call_upstream_request_error", "the worker ended its answer before it began"))
            return
        self._leave(reset=not self.sent)
        reply.finish()

    def fail(self, error: GatewayError, *, reset: bool = True) -> None:
        """End the exchange with an error, and the stream with it."""
        reply, self._reply = self._reply, None
        self._leave(reset=reset)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        if reply is not None:
            reply.finish(error if isinstance(error, UpstreamError) else UpstreamError(error.code, error.message))

    def abort(self) -> None:
        """End the stream; nobody waits for anything any more."""
        self._reply = None
        self._leave(reset=True)

    @property
    def answered(self) -> bool:
        """Whether the head of an answer has come."""
        return self._reply is not None

    def expire(self, now: float) -> None:
        """End an exchange whose deadline has passed."""
        if self.deadline and now > self.deadline:
            self.fail(UpstreamTimeout("call_upstream_timeout", "the worker did not answer in time"))

    # --- flow control

    def hold(self) -> None:
        self._held = True

    def unhold(self) -> None:
        if self._held:
            self._held = False
            self._widen()

    def _widen(self) -> None:
        if self._due >= self._window_bytes // 2:
            due, self._due = self._due, 0
            self._line.widen(self, due)

    def _leave(self, *, reset: bool) -> None:
        self.relay_chunk = None
        self.outgoing.clear()
        body, self._body = self._body, None
        if body is not None:
            body.unpipe()
        self._line.drop(self, reset=reset)
