"""The worker's side of HTTP/1.1: one connection that sends a request and reads its answer.

`UpstreamConnection.send` returns as soon as the answer's head is there; what becomes of the body is decided by whoever
has its `Reply` (`net/reply.py`). A connection serves one exchange at a time and goes back to its owner (the pool) when
the answer is complete.

Deadlines are stamps that the owner's sweep compares; see `net/sweep.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, cast

from smg.errors import GatewayError, UpstreamError, UpstreamTimeout
from smg.net.body import Upload
from smg.net.http1.codec import (
    BODYLESS,
    FINAL,
    SWITCHING_PROTOCOLS,
    ChunkedDecoder,
    ProtocolError,
    ResponseHead,
    split_response,
    whole_chunks_size,
)
from smg.net.reply import Reply


class Owner(Protocol):
    """Who keeps the connection between exchanges."""

    def release(self, connection: UpstreamConnection) -> None:
        """The answer is complete and the connection can carry another exchange."""

    def forget(self, connection: UpstreamConnection) -> None:
        """The connection is gone."""


class LostBeforeAnswer(UpstreamError):  # noqa: N818  reads as what happened
    """The connection ended before a single byte of the answer: the request may be sent once more elsewhere."""

    def __init__(self) -> None:
        super().__init__("call_upstream_request_error", "the worker closed the connection before it answered")


class UpstreamConnection(asyncio.Protocol):
    """One connection to a worker."""

    __slots__ = (
        "_buffer",
        "_decoder",
        "_held",
        "_keep",
        "_left",
        "_loop",
        "_may_switch",
        "_owner",
        "_reply",
        "_switched",
        "_upload",
        "_waiter",
        "_writable",
        "broken",
        "deadline",
        "idle_since",
        "relay_chunk",
        "reused",
        "transport",
    )

    transport: asyncio.Transport

    # Of `_left`: the body ends with the connection.
    _UNTIL_CLOSE = -1

    def __init__(self, owner: Owner, loop: asyncio.AbstractEventLoop) -> None:
        self._owner = owner
        self._loop = loop
        self._waiter: asyncio.Future[Reply] | None = None
        self._reply: Reply | None = None
        self._upload: Upload | None = None
        self._buffer = b""
        self._decoder: ChunkedDecoder | None = None
        self._left = 0
        self._held = False
        self._keep = False
        self._writable = True
        self._may_switch = False
        self._switched: Reply | None = None
        self.broken = False
        self.deadline = 0.0
        self.idle_since = 0.0
        self.relay_chunk: Callable[[bytes, int], None] | None = None
        self.reused = False

    # --- one exchange

    async def send(self, request: bytes, deadline: float, body: Upload | None = None, content: bytes = b"") -> Reply:
        """Send a request and wait for the head of its answer. `deadline` is on the loop's clock, 0 for none.

        `content` is a large body, which is not worth copying behind its head. With `body`, `request` is only the head,
        and the client's body follows as it comes. Raises LostBeforeAnswer, UpstreamError or UpstreamTimeout; cancelling
        ends the connection.
        """
        if self.broken:
            raise LostBeforeAnswer
        self.deadline = deadline
        waiter: asyncio.Future[Reply] = self._loop.create_future()
        self._waiter = waiter
        self.transport.write(request)
        if content:
            self.transport.write(content)
        if body is not None:
            self._upload = body
            body.pipe(self, self._loop.time())
        try:
            return await waiter
        except BaseException:
            if self._waiter is waiter:
                self.abort()
            elif not waiter.cancelled() and waiter.exception() is None:
                # Cancelled while the answer came. If it is complete, the connection may serve somebody else by now.
                waiter.result().close()
            del waiter  # it keeps the exception, whose traceback keeps this frame
            raise

    # --- leaving HTTP

    async def upgrade(self, request: bytes, deadline: float) -> Reply:
        """Send a request that asks for another protocol, as `send` does. The body of a 101 is what the worker says in
        that protocol, until somebody who speaks it calls `switch`.
        """
        self._may_switch = True
        reply = await self.send(request, deadline)
        self._may_switch = False
        if reply.status == SWITCHING_PROTOCOLS:
            self._switched = reply
        return reply

    def switch(self, protocol: asyncio.Protocol) -> bytes:
        """After a 101: another protocol has the connection from here on; returns what the worker sent ahead of that."""
        assert self._switched is not None
        early = self._switched.taken()
        self._reply = self._switched = None
        self.deadline = 0.0
        self.transport.set_protocol(protocol)
        self.unhold()
        return early

    def switched_off(self) -> None:
        """The connection that another protocol had is gone."""
        self.broken = True
        self._owner.forget(self)

    @property
    def lost(self) -> bool:
        """Whether the connection is no more."""
        return self.broken

    # --- what a piped request body calls

    def upload(self, piece: bytes) -> None:
        if not self.broken:
            self.transport.write(piece)

    def upload_done(self) -> None:
        self._upload = None

    def upload_failed(self, error: GatewayError) -> None:
        self._upload = None
        self.fail(error)

    # --- events of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's transports only look like one

    def data_received(self, data: bytes) -> None:
        relay = self.relay_chunk
        if relay is not None and self._decoder is not None and self._decoder.between_chunks:
            size = whole_chunks_size(data)
            if size:
                relay(data, size)  # the way of a streamed token: as few steps as there can be
                return
        reply = self._reply
        try:
            if reply is not None:
                self._take_body(reply, data)
            elif self._waiter is not None:
                self._take_head(data)
            else:
                self.abort()  # an idle worker has nothing to say
        except ProtocolError as error:
            self.fail(UpstreamError("call_upstream_request_error", f"the worker's answer is not HTTP: {error.reason}"))

    def eof_received(self) -> bool:
        if self.idle:
            self.abort()  # at once, so that nobody picks it up meanwhile
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        ended_here, self.broken = self.broken, True
        self._owner.forget(self)
        reply = self._reply
        if reply is not None and self._left == self._UNTIL_CLOSE and exc is None and not ended_here:
            self._complete(reply)
        elif reply is not None:
            self.fail(UpstreamError("read_response_body_failed", "the worker broke its answer off"))
        elif self._buffer:
            self.fail(UpstreamError("call_upstream_request_error", "the worker broke the head of its answer off"))
        else:
            self.fail(LostBeforeAnswer())

    def pause_writing(self) -> None:
        self._writable = False
        if self._upload is not None:
            self._upload.hold()

    def resume_writing(self) -> None:
        self._writable = True
        if self._upload is not None:
            self._upload.last_piece_at = self._loop.time()
            self._upload.unhold()

    # --- the answer coming in

    def _take_head(self, data: bytes) -> None:
        if self._buffer:
            data = self._buffer + data
            self._buffer = b""
        while found := split_response(data):
            head, data = found
            if head.status == SWITCHING_PROTOCOLS and not self._may_switch:
                raise ProtocolError("it switches protocols unasked")
            if head.status >= FINAL or head.status == SWITCHING_PROTOCOLS:
                self._begin_reply(head, data)
                return
            self.reused = False  # the worker has the request: it must not be sent once more
        self._buffer = data

    def _begin_reply(self, head: ResponseHead, data: bytes) -> None:
        waiter = self._waiter
        assert waiter is not None
        self._waiter = None
        if waiter.done():
            self.abort()  # cancelled a moment ago
            return
        reply = self._reply = Reply(head, self)
        waiter.set_result(reply)
        length, chunked = head.content_length, head.chunked
        if head.status == SWITCHING_PROTOCOLS:  # whatever its head says of a body (RFC 9112 section 6.3)
            length, chunked = None, False
        self._keep = head.keep_alive
        if head.status in BODYLESS:
            self._left = length = 0
        elif chunked:
            self._decoder = ChunkedDecoder()
        elif length is None:
            self._left = self._UNTIL_CLOSE
            self._keep = False
        else:
            self._left = length
        if length == 0:
            if data:
                self._keep = False
            self._complete(reply)
        elif data:
            self._take_body(reply, data)

    def _take_body(self, reply: Reply, data: bytes) -> None:
        decoder = self._decoder
        if decoder is not None:
            piece = decoder.feed(data)
            if piece:
                reply.feed(piece)
            if decoder.done:
                if decoder.rest:
                    self._keep = False
                self._complete(reply)
        elif self._left == self._UNTIL_CLOSE:
            reply.feed(data)
        else:
            if len(data) > self._left:
                data = data[: self._left]
                self._keep = False
            self._left -= len(data)
            reply.feed(data)
            if not self._left:
                self._complete(reply)

    def _complete(self, reply: Reply) -> None:
        """The answer has arrived in full: give the connection back, or end it."""
        if self._reply is not reply:
            return  # the reader refused it meanwhile
        self._reply = None
        self._decoder = None
        self.relay_chunk = None
        self._left = 0
        self.deadline = 0.0
        self.unhold()
        upload, self._upload = self._upload, None
        if upload is not None:
            upload.unpipe()
        reply.finish()
        if upload is None and self._keep and not self.broken and self._writable:
            self._owner.release(self)
        else:
            self.abort()

    def fail(self, error: GatewayError) -> None:
        """End the exchange with an error, and the connection with it."""
        waiter, self._waiter = self._waiter, None
        reply, self._reply = self._reply, None
        upload, self._upload = self._upload, None
        self.relay_chunk = None
        if upload is not None:
            upload.unpipe()
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)
        if reply is not None:
            reply.finish(error if isinstance(error, UpstreamError) else UpstreamError(error.code, error.message))
        self.abort()

    def abort(self) -> None:
        """End the connection now."""
        if not self.broken:
            self.broken = True
            self._owner.forget(self)
            self.transport.abort()

    # --- flow control and deadlines

    def hold(self) -> None:
        if not self._held and not self.broken:
            self._held = True
            self.transport.pause_reading()

    def unhold(self) -> None:
        if self._held:
            self._held = False
            if not self.broken:
                self.transport.resume_reading()

    @property
    def idle(self) -> bool:
        """Whether no exchange is under way."""
        return self._waiter is None and self._reply is None

    def expire(self, now: float) -> None:
        """End an exchange whose deadline has passed."""
        if self.deadline and now > self.deadline:
            self.fail(UpstreamTimeout("call_upstream_timeout", "the worker did not answer in time"))
