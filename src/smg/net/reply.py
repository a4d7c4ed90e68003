"""A worker's answer, as everything above the wire sees it: its head, and its body as it comes.

Whoever relays it reads the body whole, within a bound, or pumps it piece by piece into the client's connection, with
back-pressure both ways and no task of its own. What carries it is a connection of
`http1/client.py` or a stream of `http2/stream.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from smg.errors import GatewayError, UpstreamError, once_more

if TYPE_CHECKING:
    from smg.net.http1.codec import ResponseHead

# How much of an answer may arrive before somebody reads it.
UNREAD_BYTES = 256 * 1024


class Carrier(Protocol):
    """The connection an answer comes on.

    While `relay_chunk` is set, pieces that came as whole chunks go to it, in the chunked coding and with the
    size of their payload.
    """

    relay_chunk: Callable[[bytes, int], None] | None

    def hold(self) -> None:
        """Stop reading."""

    def unhold(self) -> None:
        """Read on."""

    def fail(self, error: GatewayError) -> None:
        """End the exchange with an error."""

    def abort(self) -> None:
        """End the connection."""


class Watcher(Protocol):
    """Who follows an answer that somebody else reads."""

    def began(self) -> None:
        """The first piece of a body that is pumped is on its way."""

    def lost(self, error: UpstreamError | None) -> None:
        """The body will never be complete: it broke off with this error, or its reader gave it up. Called once."""


class Reply:
    """A worker's answer: its head, and its body as it comes.

    `complete` says that all of the body has arrived. `watcher` hears how it gets on, if there is one.
    """

    __slots__ = (
        "_connection",
        "_done",
        "_error",
        "_paused",
        "_pieces",
        "_size",
        "_write",
        "complete",
        "head",
        "status",
        "watcher",
    )

    def __init__(self, head: ResponseHead, connection: Carrier) -> None:
        self.head = head
        self.status = head.status
        self.complete = False
        self.watcher: Watcher | None = None
        self._connection = connection
        self._pieces: list[bytes] = []
        self._size = 0
        self._paused = False
        self._error: UpstreamError | None = None
        self._write: Callable[[bytes], None] | None = None
        self._done: asyncio.Future[None] | None = None

    # --- the connection's side

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the body."""
        if self._write is not None:
            self._write(piece)
            return
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > UNREAD_BYTES and self._done is None:
            self._connection.hold()

    def finish(self, error: UpstreamError | None = None) -> None:
        """The body is complete, or will never be."""
        if error is None:
            self.complete = True
        elif self._error is None:
            self._error = error
            self._tell_lost(error)
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    # --- the reader's side

    @property
    def broken(self) -> UpstreamError | None:
        """What broke the body off, if something did."""
        return self._error

    def take(self, limit_bytes: int) -> bytes | None:
        """The whole body if it is complete already, which small answers are; None to `read` it."""
        if not self.complete or self._size > limit_bytes:
            return None
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)

    def taken(self) -> bytes:
        """What has arrived so far, for whoever reads on from the connection itself."""
        pieces, self._pieces = self._pieces, []
        self.complete = True
        return b"".join(pieces)

    async def read(self, limit_bytes: int) -> bytes:
        """The whole body. Raises UpstreamError when it is larger than the limit, late, or broken off."""
        length = self.head.content_length
        if length is not None and length > limit_bytes:
            self._refuse_size(limit_bytes)
        while not self.complete:
            if self._error is not None:
                raise once_more(self._error)
            if self._size > limit_bytes:
                self._refuse_size(limit_bytes)
            self._done = asyncio.get_running_loop().create_future()
            self._write = self._bounded(limit_bytes)
            self._connection.unhold()
            try:
                await self._done
            finally:
                self._write = self._done = None  # what is written to keeps this answer, as the answer keeps it
        if self._size > limit_bytes:
            self._refuse_size(limit_bytes)
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)

    async def pump(
        self, write: Callable[[bytes], None], write_chunk: Callable[[bytes, int], None] | None = None
    ) -> None:
        """Hand every piece of the body to `write` as it comes; returns at its end, raises UpstreamError if it breaks.

        Pieces that came as whole chunks go to `write_chunk`, if there is one, in the chunked coding and with
        the size of their payload. `hold` and `unhold` set the pace meanwhile.
        """
        if not self._paused and not self.complete:
            self._connection.unhold()  # before the first piece, with which the client may fall behind
        pieces, self._pieces = self._pieces, []
        if self.watcher is not None and not pieces:
            write, write_chunk = self._announcing(self.watcher, write, write_chunk), None
        elif self.watcher is not None:
            self.watcher.began()
        for piece in pieces:
            write(piece)
        self._write = write
        if not self.complete and self._error is None:
            self._connection.relay_chunk = write_chunk
        try:
            while not self.complete:
                if self._error is not None:
                    raise once_more(self._error)
                self._done = asyncio.get_running_loop().create_future()
                await self._done
        finally:
            self._write = self._done = None  # as in `read`

    def hold(self) -> None:
        """Read no more for the moment: the client does not keep up."""
        self._paused = True
        if not self.complete:
            self._connection.hold()

    def unhold(self) -> None:
        """Read on."""
        self._paused = False
        if not self.complete:
            self._connection.unhold()

    def close(self) -> None:
        """Give the answer up, if it is not complete: its connection ends."""
        if self.complete or self._error is not None:
            return
        self._tell_lost(None)
        self._connection.abort()

    def rewrite(self, body: bytes) -> None:
        """Put another body in the place of one that is complete."""
        assert self.complete
        self._pieces, self._size = [body], len(body)

    def _tell_lost(self, error: UpstreamError | None) -> None:
        watcher, self.watcher = self.watcher, None
        if watcher is not None:
            watcher.lost(error)

    def _announcing(
        self, watcher: Watcher, write: Callable[[bytes], None], write_chunk: Callable[[bytes, int], None] | None
    ) -> Callable[[bytes], None]:
        """A `write` for the first piece, which then leaves the way to the others."""

        def write_first(piece: bytes) -> None:
            watcher.began()
            self._write = write
            self._connection.relay_chunk = write_chunk
            write(piece)

        return write_first

    def _bounded(self, limit_bytes: int) -> Callable[[bytes], None]:
        pieces = self._pieces

        def write(piece: bytes) -> None:
            pieces.append(piece)
            self._size += len(piece)
            if self._size > limit_bytes:
                self._connection.fail(_too_large(limit_bytes))

        return write

    def _refuse_size(self, limit_bytes: int) -> None:
        self.close()
        raise _too_large(limit_bytes)


def _too_large(limit_bytes: int) -> UpstreamError:
    return UpstreamError("upstream_response_too_large", f"the worker's answer exceeds the limit of {limit_bytes} bytes")
