"""The worker's side of HTTP/1.1 for small calls: one connection that asks, and tells the whole answer by a plain call.

Where `client.py` hands an answer over as it comes, this one collects it up to a bound, so a call needs no task, no
future and no timer of its own. It serves one call at a time. Deadlines, and what becomes of a connection between two
calls, are the business of its owner.
"""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from smg.errors import UpstreamError
from smg.net.capture import Captured
from smg.net.http1.client import LostBeforeAnswer
from smg.net.http1.codec import (
    BODYLESS,
    FINAL,
    SWITCHING_PROTOCOLS,
    ChunkedDecoder,
    ProtocolError,
    ResponseHead,
    split_response,
)

_UNTIL_CLOSE = -1


class Owner(Protocol):
    """Who keeps the connection between calls."""

    def release(self, connection: CallConnection) -> None:
        """The answer is complete, and the connection can carry another call."""

    def forget(self, connection: CallConnection) -> None:
        """The connection has ended while it carried no call."""


class Asker(Protocol):
    """Who waits for an answer. One of the two is called, once."""

    def answered(self, captured: Captured) -> None: ...

    def failed(self, error: UpstreamError) -> None: ...


class CallConnection(asyncio.Protocol):
    """One connection to a worker."""

    __slots__ = (
        "_asker",
        "_buffer",
        "_decoder",
        "_head",
        "_left",
        "_max_bytes",
        "_owner",
        "_pieces",
        "_size",
        "_wants_body",
        "broken",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._asker: Asker | None = None
        self._max_bytes = 0
        self._wants_body = True
        self._buffer = b""
        self._head: ResponseHead | None = None
        self._decoder: ChunkedDecoder | None = None
        self._left = 0
        self._pieces: list[bytes] = []
        self._size = 0
        self.broken = False

    def ask(
        self, asker: Asker, request: bytes, content: bytes = b"", *, max_bytes: int, wants_body: bool = True
    ) -> None:
        """Send a request. `content` is a large body, which is not worth copying behind its head.

        Of an answer of more than `max_bytes` the beginning is told and the rest not read; the connection ends with it.
        Without `wants_body`, which is for HEAD, the answer is over with its head.
        """
        if self.broken:
            asker.failed(LostBeforeAnswer())
            return
        self._asker = asker
        self._max_bytes = max_bytes
        self._wants_body = wants_body
        self.transport.write(request)
        if content:
            self.transport.write(content)

    def abort(self) -> None:
        """End the connection now. Who asked hears nothing more."""
        self._asker = None
        if not self.broken:
            self.broken = True
            self.transport.abort()

    # --- events of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's transports only look like one

    def data_received(self, data: bytes) -> None:
        if self._asker is None:
            self._end_idle()  # an idle worker has nothing to say
            return
        try:
            if self._head is None:
                self._take_head(data)
            else:
                self._take_body(self._head, data)
        except ProtocolError as error:
            self._fail(UpstreamError("call_upstream_request_error", f"the worker's answer is not HTTP: {error.reason}"))

    def eof_received(self) -> bool:
        if self._asker is None:
            self._end_idle()  # at once, so that nobody picks it up meanwhile
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        ended_here, self.broken = self.broken, True
        if self._asker is None:
            if not ended_here:
                self._owner.forget(self)
        elif self._head is None:
            broken_off = UpstreamError("call_upstream_request_error", "the worker broke the head of its answer off")
            self._fail(broken_off if self._buffer else LostBeforeAnswer())
        elif self._left == _UNTIL_CLOSE and exc is None:
            self._complete(self._head, b"".join(self._pieces), keep=False)
        else:
            self._fail(UpstreamError("read_response_body_failed", "the worker broke its answer off"))

    # --- the answer coming in

    def _take_head(self, data: bytes) -> None:
        if self._buffer:
            data = self._buffer + data
            self._buffer = b""
        while found := split_response(data):
            head, data = found
            if head.status >= FINAL:
                self._begin_body(head, data)
                return
            if head.status == SWITCHING_PROTOCOLS:
                raise ProtocolError("it switches protocols unasked")
        self._buffer = data

    def _begin_body(self, head: ResponseHead, data: bytes) -> None:
        length = head.content_length
        if not self._wants_body:
            self._complete(head, b"", keep=False)  # a body that it sends all the same would follow
            return
        if head.status in BODYLESS:
            length = 0
        elif head.chunked:
            self._decoder = ChunkedDecoder()
        elif length is None:
            length = _UNTIL_CLOSE
        elif length == len(data) <= self._max_bytes:
            self._complete(head, data, keep=head.keep_alive)  # as small answers come
            return
        self._left = length or 0
        self._head = head
        if data or length == 0:
            self._take_body(head, data)

    def _take_body(self, head: ResponseHead, data: bytes) -> None:
        if self._decoder is not None:
            piece = self._decoder.feed(data)
            done, surplus = self._decoder.done, self._decoder.rest
        elif self._left == _UNTIL_CLOSE:
            piece, done, surplus = data, False, b""
        else:
            piece, surplus = data[: self._left], data[self._left :]
            self._left -= len(piece)
            done = not self._left
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._max_bytes:
            self._complete(head, b"".join(self._pieces)[: self._max_bytes], keep=False, truncated=True)
        elif done:
            self._complete(head, b"".join(self._pieces), keep=head.keep_alive and not surplus)

    def _complete(self, head: ResponseHead, body: bytes, *, keep: bool, truncated: bool = False) -> None:
        asker, self._asker = self._asker, None
        assert asker is not None
        if self._head is not None:
            self._head = self._decoder = None
            self._pieces = []
            self._size = self._left = 0
        # What the worker has not taken of the request would run into the next one.
        if keep and not self.broken and not self.transport.get_write_buffer_size():
            self._owner.release(self)
        else:
            self.abort()
        asker.answered(Captured(head.status, head.content_type, body, truncated))

    def _fail(self, error: UpstreamError) -> None:
        asker = self._asker
        self.abort()
        if asker is not None:
            asker.failed(error)

    def _end_idle(self) -> None:
        if not self.broken:
            self.abort()
            self._owner.forget(self)
