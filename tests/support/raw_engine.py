"""An engine whose every byte a test decides.

It answers the routes that a gateway asks about an engine, so that it can be registered. Each inference request becomes
a `Call`. The calls of an engine with a script are played by it, one behaviour a call and the last one for all that
follow; the calls of one without wait for the test to take them (`await engine.call()`).
"""

import asyncio
import json
import socket
from contextlib import asynccontextmanager

from support.bodies import MODEL, encoded
from support.waiting import within

_READ_LIMIT_BYTES = 1 << 20


class Call:
    """One request at the engine, and the connection to answer it on."""

    def __init__(self, engine, reader, writer, head):
        self.engine = engine
        self.reader = reader
        self.writer = writer
        line, *lines = head[:-4].decode("latin-1").split("\r\n")
        self.method, self.path, _ = line.split(" ")
        self.fields = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        self.body = b""
        self.over = asyncio.get_running_loop().create_future()
        self.keeps_connection = False

    @property
    def headers(self):
        return dict(self.fields)

    @property
    def json(self):
        return json.loads(self.body)

    async def read_body(self):
        """The whole body, which is all there is to do with it for most tests."""
        self.body = await self.reader.readexactly(int(self.headers.get("content-length", 0)))

    async def write(self, data):
        self.writer.write(data)
        await within(self.writer.drain())

    # --- whole answers

    async def answer(self, status=200, body=b'{"ok":true}', *headers):
        """Answer whole; the connection stays."""
        data = encoded(body)
        if not any(line.lower().startswith("content-type:") for line in headers):
            headers = ("content-type: application/json", *headers)
        await self.write(_head(status, f"content-length: {len(data)}", *headers) + data)
        self.finish(keeps_connection=True)

    async def begin(self, status=200, *headers):
        """Send a head; the body follows."""
        await self.write(_head(status, *headers))

    # --- answers in pieces

    async def begin_stream(self, *headers):
        await self.begin(200, "content-type: text/event-stream", "transfer-encoding: chunked", *headers)

    async def event(self, data):
        """Send one event as one chunk."""
        await self.chunk(b"data: " + data.encode() + b"\n\n")

    async def chunk(self, data):
        await self.write(b"%x\r\n%b\r\n" % (len(data), data))

    async def end_stream(self):
        """End a body of chunks; the connection stays."""
        await self.write(b"0\r\n\r\n")
        self.finish(keeps_connection=True)

    # --- ends

    def finish(self, *, keeps_connection=False):
        """The engine is done with this call."""
        self.keeps_connection = keeps_connection
        if not self.over.done():
            self.over.set_result(None)

    def close(self):
        """End the connection in good order."""
        self.writer.close()
        self.finish()

    def reset(self):
        """End it as a process that is killed does."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.writer.transport.abort()
        self.finish()

    async def abandoned(self):
        """Wait until the other side ends the connection."""
        try:
            while await within(self.reader.read(1 << 16)):
                pass
        except ConnectionError:
            pass
        self.finish()


def _head(status, *lines):
    return "\r\n".join([f"HTTP/1.1 {status} Whatever", *lines, "", ""]).encode("latin-1")


class RawEngine:
    """A listener for such calls. `calls` are all that came, `connections` counts the connections that brought them.

    With `reads_bodies` off a call is there as soon as its head is. A GET is a call only at the `path` of `gets`. With a
    context of `tls` it speaks HTTPS.
    """

    def __init__(self, *script, model=MODEL, reads_bodies=True, cards=True, well=True, gets=None, tls=None):
        self.script = list(script)
        self.model = model
        self.cards = cards
        self.well = well
        self.reads_bodies = reads_bodies
        self.gets = gets
        self.tls = tls
        self.calls = []
        self.asked = []
        self.connections = 0
        self._untaken = asyncio.Queue()
        self._tasks = set()

    async def start(self):
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_READ_LIMIT_BYTES, ssl=self.tls)
        self.port = self._listener.sockets[0].getsockname()[1]
        self.url = f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.port}"

    async def stop(self):
        """Stop listening and cut every connection."""
        self._listener.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def open_connections(self):
        return len(self._tasks)

    async def call(self):
        """The next call nobody has taken yet."""
        return await within(self._untaken.get())

    async def _serve(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        first = True
        try:
            while True:
                call = Call(self, reader, writer, await reader.readuntil(b"\r\n\r\n"))
                if call.method == "GET" and call.path.partition("?")[0] != self.gets:
                    await self._about(call)
                    continue
                self.connections += first
                first = False
                await self._take(call)
                if not call.keeps_connection:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()  # what nobody reads must not keep the loop
        finally:
            self._tasks.discard(asyncio.current_task())
            writer.close()

    async def _take(self, call):
        if self.reads_bodies:
            await call.read_body()
        self.calls.append(call)
        if not self.script:
            self._untaken.put_nowait(call)
            await call.over
            return
        behaviour = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        await behaviour(call)
        await call.over

    async def _about(self, call):
        """Answer what is asked about the engine."""
        self.asked.append(call)
        if call.path == "/health":
            await call.answer(200 if self.well else 503)
        elif call.path == "/v1/models" and self.cards:
            await call.answer(200, {"object": "list", "data": [{"id": self.model, "owned_by": "a test"}]})
        else:
            await call.answer(404)


@asynccontextmanager
async def raw_engine(*script, **options):
    """An engine that listens for the time of a block."""
    engine = RawEngine(*script, **options)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


# --- behaviours, for scripts


def answers(status=200, body=b'{"ok":true}', *headers):
    """Answer whole."""
    return lambda call: call.answer(status, body, *headers)


def streams(*events):
    """Stream events to a proper end."""

    async def behave(call):
        await call.begin_stream()
        for event in events:
            await call.event(event)
        await call.end_stream()

    return behave


async def resets(call):
    """Cut the connection before any answer."""
    call.reset()


async def closes(call):
    """End the connection in good order, before any answer."""
    call.close()


async def loses_its_second_call(call):
    """End the idle connection in the moment that the second request uses it; answer all others."""
    if call.engine.connections == 1 and len(call.engine.calls) == 2:
        call.close()
    else:
        await call.answer()


async def hangs(call):
    """Never answer."""
    await call.abandoned()


async def breaks_off(call):
    """End in the middle of a body whose length was announced."""
    await call.begin(200, "content-type: application/json", "content-length: 1000")
    await call.write(b'{"half":')
    call.close()


async def stalls(call):
    """Stop in the middle of a body, and stay."""
    await call.begin(200, "content-type: application/json", "content-length: 1000")
    await call.write(b'{"half":')
    await call.abandoned()


async def talks_nonsense(call):
    """Answer with what is no HTTP."""
    await call.write(b"\x00\x01 I am a teapot\r\n\r\n")
    call.close()


async def breaks_its_chunks(call):
    """Break the framing of a body in chunks."""
    await call.begin(200, "content-type: application/json", "transfer-encoding: chunked")
    await call.write(b"5\r\nhello\r\nnot a size\r\n")
    await call.abandoned()
