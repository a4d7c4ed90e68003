"""Fakes that the tests of the services share."""

import asyncio

import pytest

from smg.errors import UpstreamError, UpstreamTimeout
from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.registry import Registry
from smg.fleet.spec import HealthSpec, WorkerSpec
from smg.fleet.worker import ModelCard, Status, Worker
from smg.net.fetch import Fetched


class Engines:
    """Stands in for the network: answers by URL, and a list of the calls made.

    An answer is a status, a pair of status and body, or "down" or "silent". A URL without one is a 404.
    """

    def __init__(self):
        self.answers = {}
        self.calls = []

    async def get(self, url, *, api_key=None, timeout_secs, max_bytes=0):
        self.calls.append((url, api_key))
        await asyncio.sleep(0)
        answer = self.answers.get(url, 404)
        if callable(answer):
            answer = answer()
        if answer == "down":
            raise UpstreamError("call_upstream_connection_failed", "connection refused")
        if answer == "silent":
            raise UpstreamTimeout("call_upstream_timeout", f"no answer within {timeout_secs} s")
        status, body = answer if isinstance(answer, tuple) else (answer, b"")
        return Fetched(status, {}, body)

    async def reach(self, url, *, timeout_secs):
        """Whatever has an answer takes connections."""
        if url in self.answers:
            await self.get(url, timeout_secs=timeout_secs)
        else:
            self.calls.append((url, None))
            raise UpstreamError("call_upstream_connection_failed", "connection refused")

    def paths(self, base):
        return [url.removeprefix(base) for url, _ in self.calls if url.startswith(base)]


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self):
        self.now = 0.0
        self.slept = []

    def __call__(self):
        return self.now

    async def sleep(self, secs):
        self.slept.append(secs)
        self.now += secs
        await asyncio.sleep(0)


async def eventually(check):
    """Let the loop turn until `check` holds."""
    for _ in range(10_000):
        if check():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came true")


def make_worker(name="a", *, status=Status.READY, runtime="sglang", worker_type="regular", key=None, **health):
    url = f"http://{name}"
    return Worker(
        name,
        url,
        url,
        Breaker(BreakerOptions()),
        models=(ModelCard("m"),),
        status=status,
        runtime=runtime,
        worker_type=worker_type,
        api_key=key,
        spec=WorkerSpec(url=url, api_key=key, health=HealthSpec(**health)),
    )


@pytest.fixture
def engines():
    return Engines()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(scope="session")
def new_clock():
    """A clock of one's own, for properties: it is made anew for every example."""
    return Clock


@pytest.fixture
def registry():
    return Registry()


@pytest.fixture(name="eventually", scope="session")
def _eventually():
    return eventually


@pytest.fixture(name="make_worker")
def _make_worker():
    return make_worker
