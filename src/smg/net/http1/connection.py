"""One client connection: requests parsed and handed over, answers written, deadlines kept.

A connection serves one exchange at a time; what a client pipelines behind it waits in a bounded backlog. The handler
gets each exchange as soon as its head is parsed and decides itself when to read the body. The listener and what all
connections share are `server.py`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from smg.errors import GatewayError
from smg.net.body import RequestBody
from smg.net.exchange import Exchange
from smg.net.http1.codec import MAX_HEAD_BYTES, ChunkedDecoder, ProtocolError, RequestHead, parse_request_head
from smg.net.http1.peer import has_left
from smg.protocol.sse import KEEP_ALIVE

if TYPE_CHECKING:
    from smg.net.http1.server import Server

BACKLOG_BYTES = 64 * 1024
# After an early answer the rest of an upload is read and dropped for a while, or a reset would take the answer along.
LINGER_SECS = 2.0
LINGER_BYTES = 64 * 1024 * 1024


class ServerConnection(asyncio.Protocol):
    """One client connection."""

    __slots__ = (
        "_advancing",
        "_backlog",
        "_decoder",
        "_drained",
        "_exchange",
        "_fresh",
        "_half_closed",
        "_held_for_backlog",
        "_held_for_body",
        "_left",
        "_linger_bytes",
        "_linger_until",
        "_quiet_since",
        "_server",
        "_task",
        "_unsent_bytes",
        "closing",
        "gone",
        "now",
        "peer",
        "transport",
        "writable",
    )

    transport: asyncio.Transport

    def __init__(self, server: Server) -> None:
        self._server = server
        self.now = server.loop.time
        self.gone = False
        self.closing = False
        self.peer = ""
        self._exchange: Exchange | None = None
        self._task: asyncio.Task[None] | None = None
        self._backlog = b""
        self._decoder: ChunkedDecoder | None = None
        self._left = 0
        self._advancing = False
        self._fresh = True
        self._quiet_since = self.now()
        self._held_for_backlog = False
        self._held_for_body = False
        self.writable = True
        self._drained: asyncio.Future[None] | None = None
        self._linger_until = 0.0
        self._linger_bytes = 0
        self._unsent_bytes = 0
        self._half_closed = False

    # --- events of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's transports only look like one
        address = transport.get_extra_info("peername")
        self.peer = str(address[0]) if isinstance(address, tuple) else ""
        self._server.connections.add(self)
        if self._server.stopping:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self._exchange is not None:
            self._during_exchange(data)
        elif self._linger_until:
            self._linger_bytes += len(data)
            if self._linger_bytes > LINGER_BYTES:
                self.transport.abort()
        elif not self.closing:
            seen = len(self._backlog)
            if seen:
                data = self._backlog + data
                self._backlog = b""
            else:
                self._quiet_since = self.now()
            self._advance(data, seen)

    def eof_received(self) -> bool:
        """The client will send no more. That ends an upload; it also counts as leaving, whatever is under way."""
        exchange = self._exchange
        if exchange is not None and not exchange.body.complete:
            self._half_closed = True
            exchange.body.fail(GatewayError("request_body_aborted", "the client ended the request body early"))
            if exchange.status:
                self._cancel()
            return True  # a client that still listens gets to read why
        self.closing = True
        self._cancel()
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  the reason does not matter
        self.gone = True
        self._server.connections.discard(self)
        self._server.held.discard(self)
        if self._exchange is not None:
            self._exchange.body.fail(GatewayError("request_body_aborted", "the client left"))
        self._cancel()
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def pause_writing(self) -> None:
        self.writable = False
        if self._exchange is not None and self._exchange.on_writable is not None:
            self._exchange.on_writable(False)

    def resume_writing(self) -> None:
        self.writable = True
        if self._exchange is not None and self._exchange.on_writable is not None:
            self._exchange.on_writable(True)
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        if self._held_for_backlog and self._exchange is None:
            self._next()

    # --- requests coming in

    def _advance(self, data: bytes, seen: int = 0) -> None:
        """Parse and hand over requests until one is under way, the client falls behind, or the bytes run out.

        The first `seen` bytes are of a head that was incomplete without the rest.
        """
        self._advancing = True
        try:
            while data and self._exchange is None and self.writable and not self.closing:
                end = data.find(b"\r\n\r\n", seen - 3 if seen > 3 else 0)  # noqa: PLR2004  all but one of the four
                if end <= 0 or data[0] in b"\r\n":
                    data, whole = self._incomplete_head(data, end, seen)
                    if not whole:
                        break
                else:
                    data = self._begin(parse_request_head(data[:end]), data, end + 4)
                seen = 0
            self._backlog = data
        except ProtocolError as error:
            self._refuse(error)
        finally:
            self._advancing = False
        if self._backlog or self._held_for_backlog:
            self._bound_backlog()

    @staticmethod
    def _incomplete_head(data: bytes, end: int, seen: int) -> tuple[bytes, bool]:
        """Skip blank lines that some clients send before a request. Returns the rest, and whether its head is whole."""
        stripped = data.lstrip(b"\r\n") if data[0] in b"\r\n" else data
        if stripped is not data and end >= 0 and b"\r\n\r\n" in stripped:
            return stripped, True
        if len(stripped) > MAX_HEAD_BYTES:
            raise ProtocolError("request head too large", 431)
        start = seen - 1 if seen and stripped[seen - 1 : seen] == b"\r" else seen
        if stripped.count(b"\n", start) != stripped.count(b"\r\n", start):
            raise ProtocolError("bare line feed in the head")
        return stripped, False

    def _begin(self, head: RequestHead, data: bytes, body_at: int) -> bytes:
        """Start the exchange of a head; returns the bytes that follow what is known to be its body."""
        if body_at > MAX_HEAD_BYTES:
            raise ProtocolError("request head too large", 431)
        body = RequestBody(self, head.content_length, self._server.limits.max_body_bytes, self._quiet_since)
        exchange = self._exchange = Exchange(self, head, body)
        length = head.content_length or 0
        rest = b""
        if head.chunked:
            self._decoder = ChunkedDecoder()
            body.complete = False
            rest = self._take_body(data[body_at:])
        elif len(data) - body_at >= length:
            if length:
                body.put_whole(data[body_at : body_at + length])
            else:
                body.complete = True
            rest = data[body_at + length :]
        else:
            body.complete = False
            self._left = length
            self._take_body(data[body_at:])
        work = self._server.handler(exchange)
        if work is not None:
            self._task = self._server.loop.create_task(work)
        return rest

    def _take_body(self, data: bytes) -> bytes:
        """Feed the body under way; returns what follows its end."""
        exchange = self._exchange
        assert exchange is not None
        body = exchange.body
        decoder = self._decoder
        if decoder is None:
            rest = data[self._left :]
            if rest:
                data = data[: self._left]
            self._left -= len(data)
            if data:
                body.feed(data, self.now())
            if not self._left:
                body.finish()
            return rest
        try:
            piece = decoder.feed(data)
        except ProtocolError as error:
            # Nothing after a body that breaks its own framing is believed.
            self._decoder = None
            self.closing = True
            body.fail(GatewayError("request_body_aborted", error.reason))
            return b""
        if piece:
            body.feed(piece, self.now())
        if decoder.done:
            self._decoder = None
            body.finish()
            return decoder.rest
        return b""

    def _during_exchange(self, data: bytes) -> None:
        exchange = self._exchange
        assert exchange is not None
        if self.closing:
            return
        if not exchange.body.complete:
            data = self._take_body(data)
        if data:
            self._backlog += data
            self._bound_backlog()

    def _bound_backlog(self) -> None:
        """Read on only while there is room for more, and a client that takes its answers."""
        full = len(self._backlog) > BACKLOG_BYTES or (self._exchange is None and not self.writable)
        held = full and not self.closing
        if held is not self._held_for_backlog:
            self._held_for_backlog = held
            self._set_reading()

    def _refuse(self, error: ProtocolError) -> None:
        """Answer a head that is not HTTP/1.1 and end the connection."""
        self.closing = True
        self._write_refusal(error)
        self._linger()

    def _write_refusal(self, error: ProtocolError) -> None:
        line = f"HTTP/1.1 {error.status} {_REFUSALS.get(error.status, 'Bad Request')}\r\n"
        text = error.reason.encode()
        self.transport.write(
            b"%bcontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
            % (line.encode(), len(text), text)
        )

    # --- leaving HTTP

    def switch(self, protocol: asyncio.Protocol) -> bytes:
        """Another protocol has the connection from here on; returns what the client sent ahead of that.

        The exchange under way lasts as long as the connection, which tells by `switched_off` that it is no more.
        """
        early, self._backlog = self._backlog, b""
        self.closing = True
        self.transport.set_protocol(protocol)
        if self._held_for_backlog or self._held_for_body:
            self._held_for_backlog = self._held_for_body = False
            self._set_reading()
        return early

    def switched_off(self) -> None:
        """The connection that another protocol had is gone."""
        self.gone = True
        self._server.connections.discard(self)

    @property
    def lost(self) -> bool:
        """Whether the connection is no more."""
        return self.gone

    # --- the end of an exchange

    def finish(self, exchange: Exchange) -> None:
        """The exchange is over: take the next request, or end the connection."""
        if self._exchange is not exchange:
            return
        self._exchange = None
        self._task = None
        if self.gone or self._linger_until:
            return
        if exchange.status == 0 or exchange.streaming:
            self.abort()
        elif not exchange.keeps_connection or self.closing or self._server.stopping:
            self.closing = True
            self._linger()
        else:
            self._fresh = False
            self._quiet_since = self.now()
            self._next()

    def _cancel(self) -> None:
        """The client left: cancel the task that serves it, but not before its first step, which begins its accounts."""
        if self._task is not None:
            self._server.loop.call_soon(self._task.cancel)

    def _next(self) -> None:
        if self._held_for_body:
            self._held_for_body = False
            self._set_reading()
        if self._backlog and not self._advancing:
            data, self._backlog = self._backlog, b""
            self._advance(data)
        elif self._held_for_backlog and not self._advancing:
            self._bound_backlog()

    def _linger(self) -> None:
        """End our side; drop what still comes for a moment, so that the client can read the answer."""
        self._backlog = b""
        held = self._held_for_backlog or self._held_for_body
        ended = self._half_closed and not held  # nothing can follow
        if ended or not self.transport.can_write_eof() or self.transport.is_closing():
            self.transport.close()
            return
        self._linger_until = self.now() + LINGER_SECS
        if held:
            self._held_for_backlog = self._held_for_body = False
            self._set_reading()
        try:
            self.transport.write_eof()
        except OSError:  # the client reset the connection a moment ago
            self.transport.abort()

    def abort(self) -> None:
        """Cut the connection."""
        self.closing = True
        if not self.gone:
            self.transport.abort()

    def close_when_idle(self) -> None:
        """Part of a shutdown: close now, or right after the exchange under way."""
        if self._exchange is not None:
            self._exchange.end_connection()
        elif not self._linger_until:
            self.transport.close()

    @property
    def busy(self) -> bool:
        """Whether an exchange is under way."""
        return self._exchange is not None

    # --- flow control

    def hold(self) -> None:
        """Stop reading: nobody takes the body at the moment."""
        self._held_for_body = True
        self._set_reading()

    def unhold(self) -> None:
        self._held_for_body = False
        self._set_reading()

    def _set_reading(self) -> None:
        if self.gone or self.transport.is_closing():
            return
        if self._held_for_body or self._held_for_backlog:
            self.transport.pause_reading()
            self._server.held.add(self)
        else:
            self.transport.resume_reading()
            self._server.held.discard(self)

    def invite(self) -> None:
        """Send the interim answer that a client waits for before it sends its body."""
        exchange = self._exchange
        if exchange is not None and exchange.status == 0 and exchange.body.size == 0 and not self.gone:
            head = exchange.head
            if head.expects_continue:
                head.expects_continue = False
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def drain(self) -> None:
        """Wait until the client has read enough for us to write on."""
        while not self.writable and not self.gone:
            self._drained = self._server.loop.create_future()
            await self._drained

    def flush_soon(self, exchange: Exchange) -> None:
        """Flush the exchange's burst before long."""
        self._server.flush_soon(exchange)

    def date_line(self) -> bytes:
        """The Date header, made once a second."""
        return self._server.date_line()

    # --- deadlines

    def sweep(self, now: float) -> None:
        """Act on what is due, once an interval."""
        limits = self._server.limits
        exchange = self._exchange
        if exchange is None and self.transport.get_write_buffer_size():
            self._await_reader(now)
        elif self._linger_until:
            if now > self._linger_until:
                self.transport.abort()
        elif exchange is None:
            in_head = self._fresh or self._backlog
            limit_secs = limits.header_read_timeout_secs if in_head else limits.idle_timeout_secs
            if limit_secs and now - self._quiet_since > limit_secs:
                self.transport.close()
        elif not exchange.body.complete:
            body = exchange.body
            stall_secs = limits.upload_stall_timeout_secs
            if self._half_closed and not body.wanted:
                self._cancel()  # whoever waits for something else would not hear of it
            elif stall_secs and body.wanted and not body.held and now - body.last_piece_at > stall_secs:
                body.fail(GatewayError("request_body_stalled", f"no request body byte came for {stall_secs:g} s"))
        if exchange is not None and self.writable and exchange.comments_due(now, limits.sse_keepalive_secs):
            exchange.write(KEEP_ALIVE)

    def _await_reader(self, now: float) -> None:
        """The answer is not all sent: its client may read slowly, but not stop reading."""
        unsent_bytes = self.transport.get_write_buffer_size()
        timeout_secs = self._server.limits.idle_timeout_secs
        if unsent_bytes != self._unsent_bytes:
            self._unsent_bytes = unsent_bytes
            self._quiet_since = now
        elif timeout_secs and now - self._quiet_since > timeout_secs:
            self.transport.abort()
        if self._linger_until:
            self._linger_until = now + LINGER_SECS

    def check_peer(self) -> None:
        """While nothing is read, a leaving client shows only in the state of its socket."""
        if has_left(self.transport) and not self.eof_received():
            self.transport.close()


_REFUSALS = {
    400: "Bad Request",
    414: "URI Too Long",
    431: "Request Header Fields Too Large",
    501: "Not Implemented",
    505: "HTTP Version Not Supported",
}
