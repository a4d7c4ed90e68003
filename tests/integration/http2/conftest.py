"""A worker whose every frame a test decides, pools in front of it, and a stage for whole gateways.

The worker speaks HTTP/2 from the first byte to whoever begins so, and enough HTTP/1.1 to be registered. Each request
over HTTP/2 runs its `behave`, which gets a `Call`.
"""

import asyncio
import json
from contextlib import AsyncExitStack

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, RequestReceived, StreamEnded, StreamReset
from h2.exceptions import H2Error
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame

from smg.net.address import address_of
from smg.net.http1.pool import PoolOptions
from smg.net.http2.connection import StreamLimits
from smg.net.http2.pool import Http2Pool
from smg.net.sweep import Sweeper
from support.bodies import MODEL
from support.calm import calm_loop
from support.stage import Stage
from support.waiting import until, within

PREFACE = b"PRI "


class Call:
    """One request over HTTP/2, and the stream to answer it on."""

    def __init__(self, line, stream_id, headers):
        self.line = line
        self.id = stream_id
        self.fields = headers
        self.headers = dict(headers)
        self.pieces = []
        self.complete = asyncio.Event()
        self.reset_by_peer = asyncio.Event()
        self.reset_code = None

    @property
    def path(self):
        return self.headers[b":path"].decode()

    @property
    def body(self):
        return b"".join(self.pieces)

    async def read(self):
        """The whole body of the request."""
        await within(self.complete.wait())
        return self.body

    def begin(self, status=200, *fields, end=False):
        self.line.h2.send_headers(self.id, [(b":status", b"%d" % status), *fields], end_stream=end)
        self.line.flush()

    async def data(self, data, *, end=False):
        """Send a piece of the answer, as far and as fast as the peer's windows allow."""
        h2 = self.line.h2
        while data:
            self.line.moved.clear()
            room = min(h2.local_flow_control_window(self.id), h2.max_outbound_frame_size, len(data))
            if room <= 0 or not self.line.writable:
                await within(self.line.moved.wait())
                continue
            h2.send_data(self.id, data[:room])
            self.line.flush()
            data = data[room:]
        if end:
            self.end()

    def end(self):
        self.line.h2.end_stream(self.id)
        self.line.flush()

    async def answer(self, status=200, body=b'{"ok":true}', *fields):
        kind = (b"content-type", b"application/json")
        self.begin(status, kind, (b"content-length", b"%d" % len(body)), *fields)
        await self.data(body, end=True)

    async def begin_stream(self):
        self.begin(200, (b"content-type", b"text/event-stream"))

    async def event(self, text):
        await self.data(b"data: %b\n\n" % text.encode())

    def reset(self, code=ErrorCodes.INTERNAL_ERROR):
        self.line.h2.reset_stream(self.id, code)
        self.line.flush()


class Line(asyncio.Protocol):
    """One connection at the worker."""

    def __init__(self, worker):
        self.worker = worker
        self.h2 = None
        self.calls = {}
        self.moved = asyncio.Event()
        self.writable = True
        self.seen = b""
        self.over = False

    def connection_made(self, transport):
        self.transport = transport
        self.worker.lines.append(self)

    def connection_lost(self, exc):
        self.over = True
        for call in self.calls.values():
            call.reset_by_peer.set()

    def pause_writing(self):
        self.writable = False

    def resume_writing(self):
        self.writable = True
        self.moved.set()

    def data_received(self, data):
        if self.h2 is not None:
            self.take(data)
            return
        self.seen += data
        if self.seen.startswith(PREFACE[: len(self.seen)]) and (
            self.worker.says_nothing or len(self.seen) < len(PREFACE)
        ):
            return
        if self.seen.startswith(PREFACE) and self.worker.http2:
            self.begin()
            self.take(self.seen)
        elif b"\r\n\r\n" in self.seen:
            self.answer_http1()

    def answer_http1(self):
        head, self.seen = self.seen, b""  # small requests come whole
        path = head.split(b" ")[1]
        if head.startswith(PREFACE):
            self.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            self.transport.close()
            return
        if head.startswith(b"POST"):
            self.worker.http1_calls += 1
        models = {"object": "list", "data": [{"id": MODEL, "owned_by": "a test"}]}
        body = json.dumps(models).encode() if path == b"/v1/models" else b'{"ok":true}'
        self.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )

    def begin(self):
        self.h2 = H2Connection(H2Configuration(client_side=False, validate_outbound_headers=False))
        self.h2.local_settings = Settings(client=False, initial_values=self.worker.settings)
        self.h2.initiate_connection()
        self.flush()

    def take(self, data):
        try:
            events = self.h2.receive_data(data)
        except H2Error as error:
            self.worker.broken_rules.append(error)
            self.transport.abort()
            return
        for event in events:
            self.on(event)
        self.moved.set()
        self.flush()

    def on(self, event):
        if isinstance(event, RequestReceived):
            call = self.calls[event.stream_id] = Call(self, event.stream_id, event.headers)
            self.worker.calls.append(call)
            self.worker.play(call)
        elif isinstance(event, DataReceived):
            self.calls[event.stream_id].pieces.append(event.data)
            if self.worker.reads:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamEnded):
            self.calls[event.stream_id].complete.set()
        elif isinstance(event, StreamReset) and event.remote_reset:
            self.calls[event.stream_id].reset_code = event.error_code
            self.calls[event.stream_id].reset_by_peer.set()

    def flush(self):
        self.write(self.h2.data_to_send())

    def write(self, data):
        if data and not self.over:
            self.transport.write(data)

    def goaway(self, last_stream_id, code=0):
        """Say goodbye and stay; h2 itself would say nothing more."""
        self.write(GoAwayFrame(0, last_stream_id=last_stream_id, error_code=code).serialize())


class Worker:
    """A listener for such connections. `calls` are all requests over HTTP/2."""

    def __init__(self, behave, *, http2=True, reads=True, says_nothing=False, **settings):
        self.behave = behave
        self.says_nothing = says_nothing
        self.http2 = http2
        self.reads = reads
        self.settings = {getattr(SettingCodes, name.upper()): value for name, value in settings.items()}
        self.lines = []
        self.calls = []
        self.broken_rules = []
        self.http1_calls = 0
        self.tasks = set()

    async def start(self, port=0, **options):
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(lambda: Line(self), "127.0.0.1", port, **options)
        self.port = self.server.sockets[0].getsockname()[1]
        self.url = f"{'https' if options.get('ssl') else 'http'}://127.0.0.1:{self.port}"

    async def stop(self):
        self.server.close()
        for task in tuple(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for line in self.lines:
            line.transport.abort()
        await until(lambda: all(line.over for line in self.lines), "the end of the worker's connections")

    def play(self, call):
        task = asyncio.get_running_loop().create_task(self.behave(call))
        self.tasks.add(task)
        task.add_done_callback(self._played)

    def _played(self, task):
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None and not isinstance(task.exception(), H2Error):
            task.get_loop().call_exception_handler({"message": "a behaviour failed", "exception": task.exception()})

    @property
    def h2_lines(self):
        return [line for line in self.lines if line.h2 is not None]


async def answers(call):
    """Answer with what was asked."""
    await call.answer(200, await call.read() or b"{}")


@pytest.fixture
async def calm():
    """Fail on whatever reaches the loop's exception handler, and on tasks left behind."""
    async with calm_loop():
        yield


@pytest.fixture
async def start_worker(calm):
    async with AsyncExitStack() as stack:

        async def start_one(behave=answers, *, port=0, ssl=None, **options):
            worker = Worker(behave, **options)
            await worker.start(port, **({"ssl": ssl} if ssl else {}))
            stack.push_async_callback(worker.stop)
            return worker

        yield start_one


@pytest.fixture
async def new_pool(start_worker):
    """Make swept pools to a worker; at the end none of their connections may be left."""
    pools = []

    def new_one(worker, *, tls=None, limits=None, **options):
        pool = Http2Pool(address_of(worker.url), PoolOptions(**options), tls, StreamLimits(**(limits or {})))
        sweeper = Sweeper(asyncio.get_running_loop(), 0.02)
        sweeper.add(pool)
        pools.append((pool, sweeper))
        return pool

    yield new_one
    for pool, sweeper in pools:
        pool.close()
        await until(lambda pool=pool: len(pool) == 0, "the end of all connections")
        sweeper.stop()


@pytest.fixture
async def stage(start_worker):
    """Engines and gateways; at the end everything is at rest."""
    async with AsyncExitStack() as stack:
        yield Stage(stack)


def post(path="/v1/chat/completions", *fields):
    """The header list of a request."""
    return [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":authority", b"worker"),
        (b":path", path.encode()),
        *fields,
    ]


@pytest.fixture(name="post")
def post_fixture():
    return post


@pytest.fixture(name="until")
def until_fixture():
    return until


@pytest.fixture(name="within")
def within_fixture():
    return within
