"""One request and its answer, as everything above the wire sees them.

The connection fills an `Exchange` in and hands it to the server's handler. Whoever serves it reads the body, answers
once (whole with `answer`, or piece by piece with `start`, `write`, `end`), and calls `finish` when all work for it is
over: then, and not before, the connection takes its next request. When the client leaves, the task that serves the
exchange is cancelled.

Header names in `headers` are lower case; the values of a repeated header are joined with a comma.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from smg.net.http1.codec import BODYLESS
from smg.protocol.sse import TAIL_BYTES, at_boundary

if TYPE_CHECKING:
    from smg.errors import GatewayError
    from smg.net.body import RequestBody
    from smg.net.http1.codec import RequestHead
    from smg.net.http1.connection import ServerConnection
    from smg.net.routes import Route

Fields = Sequence[tuple[bytes, bytes]]

# Pieces of a stream that come closer together than this share a write, and wait for each other no longer: a token at a
# usual pace never waits, and a burst of them does not cost a system call each.
BURST_SECS = 0.002
BURST_BYTES = 16 * 1024


def _status_line(status: int) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    return f"HTTP/1.1 {status} {phrase}\r\n".encode()


_STATUS_LINES = {status.value: _status_line(status.value) for status in HTTPStatus}


class Exchange:
    """One request on one connection.

    `query` is raw, without its question mark. `peer` is the client's address. `params` holds what a route template
    matched. `events` says that the answer is an event stream, `tail` holds its last bytes. `marks` are header lines for
    any answer. `request_id`, `route`, `error_code` and `worker` are notes for the accounts. `status` is zero until
    the answer's head is on its way, `bytes_out` counts its body. `tenant` is whose request it is, where that matters.
    `cut_short` is the gateway's own reason to cancel the exchange, and what the client is told if it has no answer yet.
    Times are of `time.perf_counter`, except `written_at`, which is of the loop's clock.
    """

    __slots__ = (
        "_bodyless",
        "_burst",
        "_burst_bytes",
        "_close",
        "_on_writable",
        "_sent_at",
        "_wire",
        "answered_at",
        "body",
        "bytes_out",
        "cut_short",
        "error_code",
        "events",
        "head",
        "headers",
        "marks",
        "method",
        "params",
        "path",
        "query",
        "request_id",
        "route",
        "started_at",
        "status",
        "streaming",
        "tail",
        "tenant",
        "worker",
        "written_at",
    )

    def __init__(self, wire: ServerConnection, head: RequestHead, body: RequestBody) -> None:
        self._wire = wire
        self.head = head
        self.method = head.method
        self.path = head.path
        self.query = head.query
        self.headers = head.headers
        self.body = body
        self.started_at = time.perf_counter()
        self.answered_at = 0.0
        self.written_at = 0.0
        self.status = 0
        self.streaming = False
        self.events = False
        self.request_id = ""
        self.worker = ""
        self.bytes_out = 0
        self._burst: list[bytes] = []
        self._burst_bytes = 0
        self._sent_at = 0.0
        self.error_code = ""
        self.tenant = ""
        self.marks = b""
        self.cut_short: GatewayError | None = None
        self.params: dict[str, str] = {}
        self.route: Route | None = None
        self._on_writable: Callable[[bool], None] | None = None
        self._bodyless = False
        self._close = False
        self.tail = b""

    @property
    def peer(self) -> str:
        """The client's network address, or an empty string."""
        return self._wire.peer

    @property
    def on_writable(self) -> Callable[[bool], None] | None:
        """Who hears whether the client keeps up with what is written; told at once when it does not already."""
        return self._on_writable

    @on_writable.setter
    def on_writable(self, listener: Callable[[bool], None] | None) -> None:
        self._on_writable = listener
        if listener is not None and not self._wire.writable:
            listener(False)

    async def read_body(self) -> bytes:
        """The whole request body; raises GatewayError when it is too large or breaks off."""
        return await self.body.read()

    # --- a whole answer

    def answer(
        self, status: int, body: bytes = b"", content_type: bytes = b"application/json", headers: Fields = ()
    ) -> None:
        """Answer at once. A bodyless answer (204) carries neither type nor length."""
        block = b"".join([b"%b: %b\r\n" % field for field in headers])
        if status not in BODYLESS:
            block = b"content-type: %b\r\n%b" % (content_type, block)
        self.relay(status, block, body)

    def relay(self, status: int, block: bytes, body: bytes, *, dated: bool = False) -> None:
        """Answer at once with ready header lines, each ending in CRLF; `dated` says that they hold a Date."""
        if status in BODYLESS:
            self._begin(status, block, b"", dated=dated)
        elif self.method == "HEAD":
            self._begin(status, block, b"content-length: %d\r\n\r\n" % len(body), dated=dated)
        else:
            self.bytes_out = len(body)
            self._begin(status, block, b"content-length: %d\r\n\r\n%b" % (len(body), body), dated=dated)

    # --- an answer in pieces

    def start(self, status: int, content_type: bytes = b"text/event-stream", headers: Fields = ()) -> None:
        """Begin an answer whose body follows in pieces."""
        block = b"".join([b"%b: %b\r\n" % field for field in headers])
        self.events = content_type.startswith(b"text/event-stream")
        self.start_relay(status, b"content-type: %b\r\n%b" % (content_type, block))

    def start_relay(self, status: int, block: bytes, *, dated: bool = False) -> None:
        """Begin an answer in pieces with ready header lines. HTTP/1.0 clients see its end by the connection's end."""
        self.streaming = True
        self._bodyless = self.method == "HEAD" or status in BODYLESS
        if self.head.http10:
            self._close = True
            self._begin(status, block, b"\r\n", dated=dated)
        else:
            self._begin(status, block, b"transfer-encoding: chunked\r\n\r\n", dated=dated)

    def write(self, piece: bytes) -> None:
        """Send one piece of the body."""
        wire = self._wire
        if wire.gone or not piece or self._bodyless:
            return
        self.bytes_out += len(piece)
        self.tail = piece if len(piece) >= TAIL_BYTES else (self.tail + piece)[-TAIL_BYTES:]
        self._send(piece if self.head.http10 else b"%x\r\n%b\r\n" % (len(piece), piece))

    def write_chunk(self, chunk: bytes, size: int) -> None:
        """Send a piece of `size` bytes, at least a tail's, that is in the chunked coding already."""
        if not self._wire.gone:
            self.bytes_out += size
            self.tail = chunk[-TAIL_BYTES - 2 : -2]
            self._send(chunk)

    @property
    def takes_chunks(self) -> bool:
        """Whether `write_chunk` may be used: the client knows the coding and wants the body."""
        return not self.head.http10 and not self._bodyless

    def flush(self) -> None:
        """Send what a burst has held back."""
        if self._burst and not self._wire.gone:
            self._wire.transport.write(b"".join(self._burst))
            self._sent_at = self._wire.now()
        self._burst.clear()
        self._burst_bytes = 0

    def _send(self, data: bytes) -> None:
        """Write to the client; pieces that follow each other within `BURST_SECS` share a write."""
        wire = self._wire
        now = wire.now()
        if now - self._sent_at >= BURST_SECS and not self._burst:
            self._sent_at = self.written_at = now
            wire.transport.write(data)
            return
        self.written_at = now
        if not self._burst:
            wire.flush_soon(self)
        self._burst.append(data)
        self._burst_bytes += len(data)
        if self._burst_bytes > BURST_BYTES:
            self.flush()

    def comments_due(self, now: float, silence_secs: float) -> bool:
        """Whether this is an event stream, between two events, that has been silent for so long."""
        return bool(
            self.streaming
            and self.events
            and silence_secs
            and now - self.written_at >= silence_secs
            and at_boundary(self.tail)
        )

    async def drain(self) -> None:
        """Wait while the client reads more slowly than we write."""
        await self._wire.drain()

    def end(self) -> None:
        """End an answer in pieces."""
        self.streaming = False
        if not self.head.http10 and not self._bodyless:
            self._burst.append(b"0\r\n\r\n")
        self.flush()

    # --- leaving HTTP

    def switch(self, block: bytes) -> ServerConnection:
        """Answer that the connection goes on in another protocol, which `block` names in header lines; returns it.

        This is the last exchange of the connection, and lasts as long.
        """
        wire = self._wire
        self.status = 101
        self.answered_at = time.perf_counter()
        self._close = True
        marks = b"x-request-id: %b\r\n%b" % (self.request_id.encode(), self.marks) if self.request_id else self.marks
        if not wire.gone:
            wire.transport.write(b"%b%b%b%b\r\n" % (_STATUS_LINES[101], block, marks, wire.date_line()))
        return wire

    # --- endings

    def abort(self) -> None:
        """Cut the connection, so that the client sees a failure and not an end."""
        self._wire.abort()

    def end_connection(self) -> None:
        """Let this be the last exchange of its connection."""
        self._close = True

    def finish(self) -> None:
        """All work for this exchange is over."""
        self._on_writable = None
        self._wire.finish(self)

    @property
    def keeps_connection(self) -> bool:
        """Whether the connection can carry another request after this one."""
        return self.head.keep_alive and not self._close and self.body.complete

    def _begin(self, status: int, block: bytes, tail: bytes, *, dated: bool) -> None:
        self.status = status
        self.answered_at = time.perf_counter()
        wire = self._wire
        if wire.gone:
            return
        if wire.closing:
            self._close = True
        line = _STATUS_LINES.get(status) or _status_line(status)
        if self.request_id:
            block = b"%bx-request-id: %b\r\n" % (block, self.request_id.encode())
        if self.marks:
            block += self.marks
        if not dated:
            block += wire.date_line()
        if not self.keeps_connection:
            self._close = True
            block += b"connection: close\r\n"
        elif self.head.http10:
            block += b"connection: keep-alive\r\n"
        if status in BODYLESS:
            tail = b"\r\n"
        self.written_at = wire.now()
        wire.transport.write(b"%b%b%b" % (line, block, tail))
