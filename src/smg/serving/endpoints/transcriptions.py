"""POST /v1/audio/transcriptions: a form with a file, checked and rebuilt before any worker is asked.

The form is read to its end first, since its model may follow the file and a form that is cut off is refused; meanwhile
the file waits in a spool (`net/spool.py`), so that its size does not matter. Then it is one call like any other, with a
single attempt.
"""

from __future__ import annotations

import asyncio
import secrets

from smg.net.exchange import Exchange
from smg.net.spool import Spool
from smg.net.upload import SpooledUpload
from smg.protocol.multipart import Data, FormReader, boundary_of, render
from smg.protocol.requests import Request
from smg.protocol.transcriptions import FIELDS, FILE, Transcription, transcription_of
from smg.serving.call import Call, Endpoint
from smg.serving.dispatch import Dispatcher
from smg.serving.parse import Parser

# Bytes made to look like boundaries take a parser in Python milliseconds for so many; others get their turn in between.
SLICE_BYTES = 32 * 1024

ENDPOINTS = (Endpoint("audio_transcriptions", "/v1/audio/transcriptions", Request, "transcription-", splits=False),)


class TranscriptionEndpoint:
    """Serves the route: read, check, rebuild, dispatch."""

    def __init__(self, endpoint: Endpoint, parser: Parser, dispatcher: Dispatcher) -> None:
        self._endpoint = endpoint
        self._parser = parser
        self._dispatcher = dispatcher

    async def serve(self, exchange: Exchange) -> None:
        """Serve one exchange to the last byte of its answer. The file is gone afterwards, however it ends."""
        reader = FormReader(boundary_of(exchange.headers.get(b"content-type")), FIELDS, FILE)
        spool = Spool()
        try:
            asked = await _receive(exchange, reader, spool)
            call = self._parser.unread(exchange, self._endpoint, asked.model, asked.prompt, stream=asked.stream)
            upload = call.upload = _rebuilt(asked, call, spool)
            try:
                await self._dispatcher.run(exchange, call)
            finally:
                upload.close()
        finally:
            spool.close()


async def _receive(exchange: Exchange, reader: FormReader, spool: Spool) -> Transcription:
    """Read a form to its end, its file into the spool. Raises FormFailure, and GatewayError as reading a body does."""
    while pieces := await exchange.body.read_pieces():
        found: list[Data] = []
        for piece in pieces:
            for at in range(0, len(piece), SLICE_BYTES):
                if at:
                    await asyncio.sleep(0)
                found += reader.feed(piece[at : at + SLICE_BYTES])
        await spool.write(found)
    return transcription_of(reader.finish())


def _rebuilt(asked: Transcription, call: Call, spool: Spool) -> SpooledUpload:
    """The form that goes to the worker."""
    boundary = secrets.token_hex(20).encode()  # not to be guessed by whoever made the file
    opening, closing = render(asked.fields_for(call.model or asked.model), FILE, asked.file, boundary)
    return SpooledUpload(b"multipart/form-data; boundary=" + boundary, opening, spool, closing)
