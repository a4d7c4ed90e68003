"""Fakes that the tests of the admin routes share."""

import asyncio
import json

import pytest

from smg.errors import UpstreamError
from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.registry import Registry
from smg.fleet.spec import WorkerSpec
from smg.fleet.worker import ModelCard, Status, Worker
from smg.net.fetch import Fetched
from smg.net.routes import RouteTable

JSON = {b"content-type": b"application/json"}


class Call:
    """One request as a handler sees it, and the answer it got."""

    def __init__(self, method, path, query="", body=None, headers=None):
        self.method = method
        self.path = path
        self.query = query
        self.headers = dict(JSON if headers is None and body is not None else headers or {})
        self.params = {}
        self._body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.status = None

    async def read_body(self):
        return self._body

    def answer(self, status, body=b"", content_type=b"application/json", headers=()):
        assert self.status is None
        self.status = status
        self.body = body
        self.content_type = content_type
        self.sent = dict(headers)

    @property
    def json(self):
        return json.loads(self.body)


class Client:
    """Finds and runs the handler for a request."""

    def __init__(self, routes):
        self.table = RouteTable(routes)

    async def __call__(self, method, target, body=None, headers=None):
        path, _, query = target.partition("?")
        call = Call(method, path, query, body, headers)
        methods, call.params = self.table.methods(path)
        work = methods[method].handler(call)
        if work is not None:
            await work
        return call


class Engines:
    """Stands in for the network: answers by URL (status, body, content type), or "down"; else 404."""

    def __init__(self):
        self.answers = {}
        self.calls = []

    async def get(self, url, *, api_key=None, fields=(), timeout_secs, max_bytes=0):
        bearers = [value.decode().removeprefix("Bearer ") for name, value in fields if name == b"authorization"]
        self.calls.append((url, api_key or next(iter(bearers), None)))
        await asyncio.sleep(0)
        answer = self.answers.get(url, (404, b"", b"text/plain"))
        if answer == "down":
            raise UpstreamError("call_upstream_connection_failed", "connection refused")
        status, body, content_type = answer
        return Fetched(status, {b"content-type": content_type}, body)


async def eventually(check):
    """Let the loop turn until `check` holds."""
    for _ in range(10_000):
        if check():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came true")


def make_worker(name="a", *cards, status=Status.READY, **fields):
    url = f"http://{name}"
    fields.setdefault("spec", WorkerSpec(url=url))
    return Worker(name, url, url, Breaker(BreakerOptions()), models=cards, status=status, **fields)


@pytest.fixture
def registry():
    return Registry({"nick": "m"})


@pytest.fixture
def engines():
    return Engines()


@pytest.fixture(name="eventually")
def _eventually():
    return eventually


@pytest.fixture(name="make_worker")
def _make_worker():
    return make_worker


@pytest.fixture
def make_card():
    return ModelCard


@pytest.fixture
def client():
    return Client
