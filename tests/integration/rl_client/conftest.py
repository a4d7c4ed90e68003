"""Both twins of the client, on both event loops, and a listener in the gateway's place that follows a script."""

import asyncio
import json
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

import pytest
import uvloop

from smg.rl import RL, aio, paused
from support.calm import calm_loop
from support.waiting import until, within

_READ_LIMIT_BYTES = 1 << 20


def pytest_asyncio_loop_factories(config, item):
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


# --- the twins


class InThread:
    """The blocking client, off the loop on which its server runs."""

    def __init__(self, *arguments, **options):
        self.rl = RL(*arguments, **options)

    def __getattr__(self, name):
        async def run(*arguments, **options):
            return await asyncio.to_thread(getattr(self.rl, name), *arguments, **options)

        return run


class PausedInThread:
    """The blocking `paused`, likewise."""

    def __init__(self, client, *arguments, **options):
        self.inner = paused(client.rl, *arguments, **options)

    async def __aenter__(self):
        return await asyncio.to_thread(self.inner.__enter__)

    async def __aexit__(self, *raised):
        return await asyncio.to_thread(self.inner.__exit__, *raised)


@pytest.fixture(params=[InThread, aio.RL], ids=["blocking", "coroutine"])
def client(request):
    """Make a client, whose methods are awaited whichever twin it is."""
    return request.param


@pytest.fixture
def pausing(client):
    """`paused` for such a client, for `async with`."""
    return PausedInThread if client is InThread else aio.paused


# --- in the gateway's place


@dataclass
class Request:
    method: str
    target: str
    fields: list
    body: bytes

    @property
    def headers(self):
        return dict(self.fields)

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def path(self):
        return urlsplit(self.target).path

    @property
    def query(self):
        return parse_qsl(urlsplit(self.target).query, keep_blank_values=True)


class Turn:
    """One connection with its request; a script answers on it."""

    def __init__(self, reader, writer, request):
        self.reader = reader
        self.writer = writer
        self.request = request

    async def write(self, *pieces):
        for piece in pieces:
            self.writer.write(piece)
            await within(self.writer.drain())

    async def answer(self, payload, status=200, *lines):
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        await self.write(head(status, f"Content-Length: {len(data)}", *lines) + data)

    async def abandoned(self):
        """Wait until the client ends the connection."""
        with suppress(ConnectionError):
            while await within(self.reader.read(1 << 16)):
                pass

    def reset(self):
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.writer.transport.abort()


def head(status, *lines):
    return "\r\n".join([f"HTTP/1.1 {status} Whatever", *lines, "", ""]).encode()


class StandIn:
    """Listens; every connection brings one request, which is taken down and given to the script."""

    def __init__(self, script, *, tls=None, reads_bodies=True):
        self.script = script
        self.requests = []
        self.connections = 0
        self.abandoned = 0
        self._tls = tls
        self._reads_bodies = reads_bodies
        self._tasks = set()

    async def start(self):
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_READ_LIMIT_BYTES, ssl=self._tls)
        self.port = self._listener.sockets[0].getsockname()[1]
        self.url = f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}"

    async def stop(self):
        self._listener.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def called(self, count=1):
        """Wait until so many requests have come."""
        await until(lambda: len(self.requests) >= count, f"{count} requests")

    async def _serve(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        self.connections += 1
        try:
            request = await self._read(reader)
            self.requests.append(request)
            turn = Turn(reader, writer, request)
            await self.script(turn)
            if not writer.transport.is_closing():
                writer.write_eof() if writer.can_write_eof() else writer.close()
                await turn.abandoned()
                self.abandoned += 1
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError, asyncio.CancelledError):
            pass
        except RuntimeError:  # what uvloop says to those who write after the end
            assert writer.transport.is_closing()
        finally:
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()
            self._tasks.discard(asyncio.current_task())

    async def _read(self, reader):
        line, *lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].decode().split("\r\n")
        method, target, version = line.split(" ")
        assert version == "HTTP/1.1"
        fields = [(name.lower(), value) for name, _, value in (line.partition(": ") for line in lines)]
        length = int(dict(fields).get("content-length", 0)) if self._reads_bodies else 0
        return Request(method, target, fields, await reader.readexactly(length))


@pytest.fixture
async def stand_in():
    """Start a listener: `await stand_in(script)`."""
    listeners = []

    async def start(script, **options):
        listener = StandIn(script, **options)
        await listener.start()
        listeners.append(listener)
        return listener

    async with calm_loop():
        yield start
        for listener in listeners:
            await listener.stop()


def answers(payload, status=200, *lines):
    """A script: always the same answer."""
    return lambda turn: turn.answer(payload, status, *lines)


@pytest.fixture(name="answers")
def answers_fixture():
    return answers


@pytest.fixture(name="head")
def head_fixture():
    return head
