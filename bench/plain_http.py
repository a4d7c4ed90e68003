"""A plain client on asyncio's streams, for load that is to be right rather than fast."""

import asyncio
from typing import NamedTuple

from bench import wire


class Answer(NamedTuple):
    status: int
    body: bytes


class PlainClient:
    """One connection that is kept, and one request at a time on it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, port: int) -> "PlainClient":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def send(self, piece: bytes) -> None:
        """Send a part of a request."""
        self._writer.write(piece)
        await self._writer.drain()

    async def ask(self, request: bytes) -> Answer:
        """Raises `EOFError` when the connection ends before the answer does."""
        await self.send(request)
        head = await self._reader.readuntil(wire.HEAD_END)
        return Answer(int(head.split(b" ", 2)[1]), await self._body(head))

    async def post(self, port: int, path: str, body: bytes) -> Answer:
        return await self.ask(wire.request("POST", path, port, body))

    async def get(self, port: int, path: str) -> Answer:
        return await self.ask(wire.request("GET", path, port))

    async def _body(self, head: bytes) -> bytes:
        length = wire.content_length(head[: -len(wire.HEAD_END)])
        if length is not None:
            return await self._reader.readexactly(length)
        body = b""
        while size := int(await self._reader.readline(), 16):
            body += await self._reader.readexactly(size)
            await self._reader.readline()
        await self._reader.readline()
        return body

    def close(self) -> None:
        self._writer.close()
