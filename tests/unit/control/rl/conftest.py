"""Fakes that the tests of the control plane share."""

import asyncio
import json
from typing import NamedTuple

import pytest

from smg.control.rl.accounts import ControlAccounts
from smg.control.rl.caller import ControlCaller, ControlOptions
from smg.errors import UpstreamError, UpstreamTimeout
from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.registry import Registry
from smg.fleet.spec import WorkerSpec
from smg.fleet.worker import Status, Worker
from smg.net.capture import CallLimits, Captured, Outgoing
from smg.telemetry.metrics import Metrics

_ERRORS = {
    "down": UpstreamError("call_upstream_connection_failed", "connection refused"),
    "silent": UpstreamTimeout("call_upstream_timeout", "no answer within 5 s"),
}


class Sent(NamedTuple):
    """One call as the network would have it."""

    key: str
    host: str
    request: Outgoing
    limits: CallLimits
    http2: bool
    tls: object


class Engines:
    """Stands in for the network. Answers by host: a Captured, "down", "silent", or a gate to wait at first."""

    def __init__(self):
        self.answers = {}
        self.sent = []
        self.under_way = 0
        self.most_under_way = 0
        self.cancelled = 0

    def begin(self, key, address, request, limits, ended, *, http2, tls):
        self.sent.append(Sent(key, address.host, request, limits, http2, tls))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        return asyncio.ensure_future(self._call(address.host, ended))

    async def _call(self, host, ended):
        try:
            answer = self.answers.get(host, captured())
            if isinstance(answer, asyncio.Event):
                await answer.wait()
                answer = captured()
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.under_way -= 1
        ended(_ERRORS[answer] if isinstance(answer, str) else answer)

    @property
    def called(self):
        return [sent.host for sent in self.sent]


def captured(status=200, body=b"{}", content_type=b"application/json", *, truncated=False):
    return Captured(status, content_type, body, truncated)


def make_worker(name="a", *, status=Status.READY, **fields):
    url = fields.pop("url", f"http://{name}")
    fields.setdefault("spec", WorkerSpec(url=url))
    fields.setdefault("base_url", url)
    return Worker(id=name, url=url, breaker=Breaker(BreakerOptions()), status=status, **fields)


class Plane:
    """A caller with everything around it."""

    def __init__(self, **options):
        self.registry = Registry()
        self.engines = Engines()
        self.metrics = Metrics()
        self.accounts = ControlAccounts(self.metrics)
        self.heard = []
        self.caller = ControlCaller(ControlOptions(**options), self.engines)
        self.caller.subscribe(self.heard.append)

    def register(self, *names, **fields):
        workers = [make_worker(name, **fields) for name in names]
        for worker in workers:
            self.registry.add(worker)
        return workers

    def samples(self, family):
        """What a counter's series stand at, by label values."""
        return {labels: child.value for labels, child in family.recorded()}

    def observed(self, family):
        """How many observations a histogram's series have."""
        return {labels: sum(child.counts) for labels, child in family.recorded()}


@pytest.fixture
def plane():
    return Plane()


@pytest.fixture
def new_plane():
    return Plane


@pytest.fixture(name="captured")
def _captured():
    return captured


@pytest.fixture(name="make_worker")
def _make_worker():
    return make_worker


@pytest.fixture
def show():
    """JSON read back."""
    return json.loads
