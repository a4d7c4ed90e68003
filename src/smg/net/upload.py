"""A body that was kept and is now sent: what comes before the kept bytes, those bytes piece by piece, and what follows.

It is piped as a client's body is (`body.py`), at the pace of the worker: no more than a piece is read ahead.
"""

from __future__ import annotations

import asyncio
from typing import Final

from smg.errors import GatewayError
from smg.net.body import Sink
from smg.net.spool import Spool

# A worker's connection holds us back at 64 KB, so a piece is about all that is under way.
PIECE_BYTES: Final = 128 * 1024


class SpooledUpload:
    """The body of one call to a worker, and its type. It owns the spool. See `body.Upload`."""

    __slots__ = (
        "_closing",
        "_loop",
        "_opening",
        "_sink",
        "_spool",
        "_task",
        "_unheld",
        "content_type",
        "held",
        "last_piece_at",
    )

    def __init__(self, content_type: bytes, opening: bytes, spool: Spool, closing: bytes) -> None:
        self.content_type = content_type
        self._opening = opening
        self._spool = spool
        self._closing = closing
        self._loop = asyncio.get_running_loop()
        self._sink: Sink | None = None
        self._task: asyncio.Task[None] | None = None
        self._unheld: asyncio.Future[None] | None = None
        self.held = False
        self.last_piece_at = 0.0

    @property
    def length(self) -> int:
        """All of its bytes."""
        return len(self._opening) + self._spool.size + len(self._closing)

    @property
    def piped(self) -> bool:
        """Whether it is on its way."""
        return self._sink is not None

    def pipe(self, sink: Sink, now: float) -> None:
        """Send it from its beginning."""
        self._sink = sink
        self.held = False
        self.last_piece_at = now
        self._task = self._loop.create_task(self._send(sink))

    def unpipe(self) -> None:
        """The sink wants no more."""
        self._sink = None
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    def hold(self) -> None:
        """Wait: the worker does not keep up."""
        self.held = True

    def unhold(self) -> None:
        """Send on."""
        self.held = False
        if self._unheld is not None and not self._unheld.done():
            self._unheld.set_result(None)

    def close(self) -> None:
        """It is needed no more: whatever is still under way ends, and the kept bytes are gone."""
        self.unpipe()
        self._spool.close()

    async def _send(self, sink: Sink) -> None:
        try:
            sink.upload(self._opening)
            offset = 0
            while offset < self._spool.size:
                await self._until_unheld()
                piece = await self._spool.read(offset, PIECE_BYTES)
                offset += len(piece)
                sink.upload(piece)
            sink.upload(self._closing)
        except GatewayError as error:
            self._sink = None
            sink.upload_failed(error)
        else:
            self._sink = None
            sink.upload_done()

    async def _until_unheld(self) -> None:
        while self.held:
            self._unheld = self._loop.create_future()
            await self._unheld
