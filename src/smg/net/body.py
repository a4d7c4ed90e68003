"""The body of a request while it arrives: read by one reader, whole or piece by piece, or piped on to a worker.

Nobody reads ahead without bound: until somebody asks, at most `UNREAD_BYTES` are held and then the client is held
back. A sized body knows its length; a chunked one is cut off at `limit_bytes`.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from smg.errors import GatewayError, once_more

UNREAD_BYTES = 256 * 1024


class Source(Protocol):
    """The connection a body arrives on."""

    def hold(self) -> None:
        """Stop reading from the client."""

    def unhold(self) -> None:
        """Read on."""

    def invite(self) -> None:
        """Tell a client that waits for it (Expect: 100-continue) to send its body."""


class Sink(Protocol):
    """Where a piped body goes."""

    def upload(self, piece: bytes) -> None: ...

    def upload_done(self) -> None: ...

    def upload_failed(self, error: GatewayError) -> None: ...


class Upload(Protocol):
    """A body that can be piped to a worker: a client's as it comes, or one that was kept (`upload.py`).

    `held` says that the sink does not keep up, `last_piece_at` is when it last let a stall count anew.
    """

    held: bool
    last_piece_at: float

    @property
    def piped(self) -> bool: ...

    def pipe(self, sink: Sink, now: float) -> None: ...

    def unpipe(self) -> None: ...

    def hold(self) -> None: ...

    def unhold(self) -> None: ...


class RequestBody:
    """One request's body. `length` is the announced length, or None for a chunked body."""

    __slots__ = (
        "_error",
        "_pieces",
        "_sink",
        "_source",
        "_unread_bytes",
        "_waiter",
        "_wants_pieces",
        "complete",
        "held",
        "last_piece_at",
        "length",
        "limit_bytes",
        "size",
    )

    def __init__(self, source: Source, length: int | None, limit_bytes: int, now: float) -> None:
        self._source = source
        self._pieces: list[bytes] = []
        self._waiter: asyncio.Future[None] | None = None
        self._sink: Sink | None = None
        self._error: GatewayError | None = None
        self._unread_bytes = 0
        self._wants_pieces = False
        self.length = length
        self.limit_bytes = limit_bytes
        self.size = 0
        self.complete = length == 0
        self.held = False
        self.last_piece_at = now

    # --- the connection's side

    def feed(self, piece: bytes, now: float) -> None:
        """Take the next bytes off the wire."""
        if self._error is not None:
            return
        self.size += len(piece)
        self.last_piece_at = now
        if self.size > self.limit_bytes:
            self.fail(too_large(self.limit_bytes))
        elif self._sink is not None:
            self._sink.upload(piece)
        else:
            self._pieces.append(piece)
            self._unread_bytes += len(piece)
            if self._wants_pieces:
                self._wake()
            if self._waiter is None and self._unread_bytes > UNREAD_BYTES and not self.held:
                self.hold()

    def finish(self) -> None:
        """The last byte has been fed. A body that failed before stays incomplete."""
        if self._error is not None:
            return
        self.complete = True
        self.unhold()  # whoever held the client back for this body has no more reason to
        if self._sink is not None:
            self._sink.upload_done()
        self._wake()

    def fail(self, error: GatewayError) -> None:
        """The body will never be complete."""
        if self._error is not None or self.complete:
            return
        self._error = error
        self._pieces.clear()
        if self._sink is not None:
            self._sink.upload_failed(error)
        self._wake()

    # --- the reader's side

    async def read(self) -> bytes:
        """The whole body. Raises GatewayError when it is too large, stalled, or broken off."""
        while not self.complete and self._error is None:
            await self._wait()
        if self._error is not None:
            raise once_more(self._error)
        pieces = self._pieces
        if len(pieces) != 1:
            self._pieces = pieces = [b"".join(pieces)]
        return pieces[0]

    async def read_pieces(self) -> list[bytes]:
        """What has arrived since the last call, at least one piece; none at the end of the body.

        Between two calls the client is held back as soon as more than `UNREAD_BYTES` wait. Raises as `read` does.
        """
        if not self._pieces and not self.complete and self._error is None:
            self._wants_pieces = True
            try:
                await self._wait()
            finally:
                self._wants_pieces = False
        if self._error is not None:
            raise once_more(self._error)
        pieces, self._pieces = self._pieces, []
        self._unread_bytes = 0
        if not self.complete:
            self.unhold()
        return pieces

    def take(self) -> bytes | None:
        """The whole body if it has arrived, which small ones have; None to `read` it."""
        if not self.complete or self._error is not None:
            return None
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)

    @property
    def piped(self) -> bool:
        """Whether the body goes to a worker as it comes."""
        return self._sink is not None

    @property
    def wanted(self) -> bool:
        """Whether somebody waits for the rest of the body: only then can a client be late with it."""
        return self._waiter is not None or self._sink is not None

    def pipe(self, sink: Sink, now: float) -> None:
        """Hand everything that came and will come to `sink`, which then decides the pace with hold and unhold."""
        self._sink = sink
        self.last_piece_at = now
        if self._error is not None:
            sink.upload_failed(self._error)
            return
        self.unhold()  # before the first piece, with which the sink may hold again
        pieces, self._pieces = self._pieces, []
        for piece in pieces:
            sink.upload(piece)
        if self.complete:
            sink.upload_done()
        else:
            self._source.invite()

    def unpipe(self) -> None:
        """The sink is gone; what still arrives is dropped with the connection."""
        self._sink = None

    def hold(self) -> None:
        """Hold the client back."""
        self.held = True
        self._source.hold()

    def unhold(self) -> None:
        """Let the client send on; a stall is counted from here."""
        if self.held:
            self.held = False
            self._source.unhold()

    def put_whole(self, body: bytes) -> None:
        """The body came complete with its head."""
        self._pieces.append(body)
        self.size = len(body)
        self.complete = True

    async def _wait(self) -> None:
        """Wait until there is something new for the reader."""
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        self.last_piece_at = loop.time()
        self._source.invite()
        self.unhold()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def too_large(limit_bytes: int) -> GatewayError:
    """The refusal of a body beyond the payload limit."""
    return GatewayError("request_body_too_large", f"the request body exceeds the limit of {limit_bytes} bytes")
