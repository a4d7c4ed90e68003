"""A client that speaks HTTP/1.1 by hand, so that it can stop anywhere and leave in every way there is."""

import asyncio
import json
import socket
from contextlib import suppress
from dataclasses import dataclass, field

from support.bodies import encoded
from support.waiting import within

_READ_LIMIT_BYTES = 1 << 20


@dataclass
class Answer:
    """An answer: `fields` are the headers as sent, `headers` the last of each by lower-case name."""

    status: int
    fields: list = field(default_factory=list)
    body: bytes = b""

    @property
    def headers(self):
        return dict(self.fields)

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        """The gateway's own error code, from the header and the body, which must agree."""
        code = self.headers["x-smg-error-code"]
        assert self.json["error"]["code"] == code
        return code

    @property
    def worker(self):
        """The URL of the worker that answered."""
        return self.headers["x-smg-routed-worker-id"]

    @property
    def events(self):
        """The data of the events of a stream, as text."""
        assert self.headers["content-type"].startswith("text/event-stream")
        return [event.removeprefix("data: ") for event in self.body.decode().split("\n\n") if event]


class Client:
    """One connection to a gateway."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer
        self._method = ""

    @classmethod
    async def open(cls, port, *, receive_bytes=0):
        """`receive_bytes` bounds what the kernel takes for a client that does not read."""
        sock = socket.socket()
        if receive_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.setblocking(False)
        try:
            await within(asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port)))
        except OSError:
            sock.close()
            raise
        return cls(*await asyncio.open_connection(sock=sock, limit=_READ_LIMIT_BYTES))

    # --- what the client says

    async def send(self, method, target, body=None, headers=(), *, length=None):
        """Send a request. `length` announces another length than that of `body`, of which more follows then."""
        data = b"" if body is None else encoded(body)
        lines = [f"{method} {target} HTTP/1.1", "host: gateway"]
        if body is not None or length is not None:
            lines.append(f"content-length: {len(data) if length is None else length}")
            if not any(line.lower().startswith("content-type:") for line in headers):
                lines.append("content-type: application/json")
        self._method = method
        await self.write("\r\n".join([*lines, *headers, "", ""]).encode("latin-1") + data)

    async def write(self, data):
        """Send bytes, and wait until the kernel has most of them."""
        self.writer.write(data)
        await within(self.writer.drain())

    # --- what it hears

    async def head(self):
        """The head of the next answer that is no interim one."""
        while True:
            raw = await within(self.reader.readuntil(b"\r\n\r\n"))
            line, *lines = raw[:-4].decode("latin-1").split("\r\n")
            fields = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
            status = int(line.split()[1])
            if status >= 200:
                return Answer(status, fields)

    async def answer(self):
        """The next answer, whole."""
        answer = await self.head()
        answer.body = await within(self._body(answer))
        return answer

    async def chunk(self):
        """The next chunk of a body in pieces; empty at its end."""
        size = int(await within(self.reader.readuntil(b"\r\n")), 16)
        return (await within(self.reader.readexactly(size + 2)))[:-2]

    async def rest_of_body(self):
        """The payload of all chunks up to the end of the body."""
        pieces = []
        while piece := await self.chunk():
            pieces.append(piece)
        return b"".join(pieces)

    async def rest(self):
        """Everything up to the end of the connection; a reset is an end too."""
        received = b""
        try:
            while piece := await within(self.reader.read(1 << 16)):
                received += piece
        except ConnectionError:
            pass
        return received

    async def _body(self, answer):
        headers = answer.headers
        if self._method == "HEAD" or answer.status in {204, 304}:
            return b""
        if headers.get("transfer-encoding") == "chunked":
            return await self.rest_of_body()
        if "content-length" in headers:
            return await self.reader.readexactly(int(headers["content-length"]))
        return await self.reader.read()

    # --- how it leaves

    def close(self):
        """Leave in good order."""
        self.writer.close()

    def half_close(self):
        """Say that nothing more will be sent."""
        self.writer.write_eof()

    def reset(self):
        """Leave as a crashed process does."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.writer.transport.abort()

    async def closed(self):
        """Wait until the connection is gone for good."""
        self.writer.close()
        with suppress(ConnectionError):
            await within(self.writer.wait_closed())


LEAVING = {"close": Client.close, "half close": Client.half_close, "reset": Client.reset}
