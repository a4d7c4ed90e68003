"""Real sockets on both event loops: a server under test, raw clients for it, and workers that follow a script."""

import asyncio
import gc
import socket

import pytest
import uvloop

from smg.errors import GatewayError
from smg.net.address import address_of
from smg.net.http1.pool import Pool, PoolOptions
from smg.net.http1.server import HeldConnections, Limits, serve
from smg.net.sweep import Sweeper

HOST = "127.0.0.1"
WAIT_SECS = 10.0


def pytest_asyncio_loop_factories(config, item):
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


@pytest.fixture(autouse=True)
async def calm():
    """Fail on whatever reaches the loop's exception handler, and on tasks left behind."""
    loop = asyncio.get_running_loop()
    unexpected = []
    loop.set_exception_handler(lambda _, context: unexpected.append(context))
    before = asyncio.all_tasks()
    gc.freeze()  # so that the collection below looks at nothing but what the test made
    yield
    await asyncio.sleep(0)
    gc.collect()
    gc.unfreeze()
    await asyncio.sleep(0)
    assert unexpected == []
    assert asyncio.all_tasks() <= before | {asyncio.current_task()}


async def until(condition, what="the condition"):
    """Wait, within bounds, until a condition holds."""
    async with asyncio.timeout(WAIT_SECS):
        while not condition():  # noqa: ASYNC110  the condition is in another object's hands
            await asyncio.sleep(0.005)
    assert condition(), what


@pytest.fixture(name="until")
def until_fixture():
    return until


# --- the side of a client


class Client:
    """A raw connection to the server under test."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    async def send(self, *pieces):
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def head(self):
        """The next head: its status, its headers by lower-case name, and its bytes."""
        async with asyncio.timeout(WAIT_SECS):
            raw = await self.reader.readuntil(b"\r\n\r\n")
        line, *lines = raw[:-4].decode("latin-1").split("\r\n")
        return int(line.split()[1]), {
            name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
        }

    async def answer(self, method="GET"):
        """The next answer: its status, its headers and its body."""
        status, headers = await self.head()
        async with asyncio.timeout(WAIT_SECS):
            return status, headers, await self._body(status, headers, method)

    async def _body(self, status, headers, method):
        if method == "HEAD" or status in {204, 304}:
            return b""
        if headers.get("transfer-encoding") == "chunked":
            return b"".join([chunk async for chunk in self.chunks()])
        if "content-length" in headers:
            return await self.reader.readexactly(int(headers["content-length"]))
        return await self.reader.read()

    async def chunks(self):
        while chunk := await self.chunk():
            yield chunk

    async def chunk(self):
        async with asyncio.timeout(WAIT_SECS):
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            return (await self.reader.readexactly(size + 2))[:-2]

    async def rest(self):
        """Everything up to the end of the connection; a reset counts as one."""
        received = b""
        try:
            async with asyncio.timeout(WAIT_SECS):
                while piece := await self.reader.read(65536):
                    received += piece
        except ConnectionError:
            pass
        return received

    def half_close(self):
        self.writer.write_eof()

    def reset(self):
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.writer.transport.abort()

    def close(self):
        self.writer.close()


@pytest.fixture
async def connect():
    """Open raw client connections; `receive_bytes` shrinks what the kernel takes for a client that does not read."""
    clients = []

    async def open_one(server, *, receive_bytes=0, limit=1 << 16):
        sock = socket.socket()
        if receive_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (HOST, server.port))
        client = Client(*await asyncio.open_connection(sock=sock, limit=limit))
        clients.append(client)
        return client

    yield open_one
    for client in clients:
        client.close()
    for client in clients:
        try:
            async with asyncio.timeout(WAIT_SECS):
                await client.writer.wait_closed()
        except (ConnectionError, TimeoutError):
            client.writer.transport.abort()
    await asyncio.sleep(0)


# --- the server under test


class Service:
    """A handler that runs `work` for each exchange, answers its refusals, and records how each one ended."""

    def __init__(self, work):
        self.work = work
        self.exchanges = []
        self.finished = []
        self.cancelled = []

    async def __call__(self, exchange):
        self.exchanges.append(exchange)
        try:
            await self.work(exchange)
        except GatewayError as error:
            exchange.answer(error.status, error.code.encode())
        except asyncio.CancelledError:
            self.cancelled.append(exchange)
        finally:
            self.finished.append(exchange)
            exchange.finish()


async def echo(exchange):
    body = await exchange.read_body()
    exchange.answer(200, b"%b %b " % (exchange.method.encode(), exchange.path.encode()) + body, b"text/plain")


@pytest.fixture
async def start(until, monkeypatch):
    """Start servers: `service = await start(work)` with the server as `service.server`."""
    monkeypatch.setattr(HeldConnections, "INTERVAL_SECS", 0.05)
    servers = []

    async def start_one(work=echo, **limits):
        service = Service(work)
        service.server = await serve(service, HOST, 0, Limits(**limits))
        servers.append(service)
        return service

    yield start_one
    for service in servers:
        service.server.stop_listening()
        service.server.abort()
    for service in servers:
        await until(lambda service=service: len(service.server.connections) == 0)
        await until(lambda service=service: len(service.finished) == len(service.exchanges))
        assert len(set(map(id, service.finished))) == len(service.exchanges)
        assert service.server.busy == 0
        assert not service.server.held._members
        assert len(service.server.held._sweeper) == 0


# --- the side of a worker


class WorkerConnection:
    """One connection at the worker, for its script."""

    def __init__(self, worker, reader, writer):
        self.worker = worker
        self.reader = reader
        self.writer = writer

    async def request(self, *, body=True):
        """The next request's head and body; raises IncompleteReadError at the connection's end."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        received = await self.reader.readexactly(length) if body else b""
        self.worker.requests.append((head, received))
        return head, received

    async def write(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, body=b"ok", *lines, status="200 OK"):
        await self.write(answer_head(f"content-length: {len(body)}", *lines, status=status) + body)

    def reset(self):
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.writer.transport.abort()

    async def ended(self):
        """Wait until the other side ends the connection."""
        try:
            while await self.reader.read(1 << 16):
                pass
        except ConnectionError:
            pass
        self.worker.ended += 1


def answer_head(*lines, status="200 OK"):
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode()


class Worker:
    """A worker whose every connection follows `script(connection, number)`, and is closed after it."""

    def __init__(self, script):
        self.script = script
        self.requests = []
        self.connections = 0
        self.open = 0
        self.ended = 0
        self.tasks = set()
        self.port = 0

    @property
    def url(self):
        return f"http://{HOST}:{self.port}"

    async def listen(self, receive_bytes=0):
        sock = socket.socket()
        if receive_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.bind((HOST, 0))
        self.port = sock.getsockname()[1]
        self.listener = await asyncio.start_server(self._serve, sock=sock, limit=1 << 16)

    async def _serve(self, reader, writer):
        self.tasks.add(asyncio.current_task())
        self.connections += 1
        self.open += 1
        try:
            await self.script(WorkerConnection(self, reader, writer), self.connections)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.open -= 1
            writer.close()
            writer._protocol._closed.add_done_callback(retrieve)
            self.tasks.discard(asyncio.current_task())

    async def stop(self):
        self.listener.close()
        for task in tuple(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await asyncio.sleep(0)


def retrieve(future):
    """See how a connection ended, so that nobody complains that no one did."""
    if not future.cancelled():
        future.exception()


async def serve_all(connection, number):
    """The script of a worker in good order."""
    while True:
        _, body = await connection.request()
        await connection.answer(b"%d:" % number + body)


@pytest.fixture
async def start_worker():
    workers = []

    async def start_one(script=serve_all, **options):
        worker = Worker(script)
        await worker.listen(**options)
        workers.append(worker)
        return worker

    yield start_one
    for worker in workers:
        await worker.stop()


@pytest.fixture
async def new_pool(until):
    """Make swept pools to a worker or URL; at the end none of their connections may be left."""
    pools = []

    def new_one(worker, **options):
        url = worker if isinstance(worker, str) else worker.url
        pool = Pool(address_of(url), PoolOptions(**options))
        sweeper = Sweeper(asyncio.get_running_loop(), 0.02)
        sweeper.add(pool)
        pools.append((pool, sweeper))
        return pool

    yield new_one
    for pool, sweeper in pools:
        pool.close()
        await until(lambda pool=pool: len(pool) == 0, "no connection is left")
        sweeper.stop()
        assert pool._idle == []


def post(body=b"", path="/"):
    return b"POST %b HTTP/1.1\r\nhost: worker\r\ncontent-length: %d\r\n\r\n%b" % (path.encode(), len(body), body)


@pytest.fixture
def wire_format():
    """How requests and answers are spelled."""
    return post, answer_head
