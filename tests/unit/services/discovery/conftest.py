"""Pods, and a fleet with everything around it, for the tests of discovery."""

import json

import pytest

from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.health import HealthOptions
from smg.fleet.registry import Registry
from smg.fleet.spec import WorkerSpec
from smg.net.fetch import Fetched
from smg.services.discovery.desired import Desired
from smg.services.discovery.pods import Condition, Metadata, Pod, PodStatus
from smg.services.discovery.reconciler import Reconciler
from smg.services.inspection import Inspector
from smg.services.jobs import JobQueue
from smg.services.registrar import Registrar, RegistrarOptions
from smg.telemetry.metrics import Metrics

SOURCE = "kubernetes"


def make_pod(name="a", *, uid=None, ip="10.0.0.1", ready="True", phase="Running", version="1", **metadata):
    """A pod that serves, unless told otherwise."""
    return Pod(
        Metadata(name=name, namespace="models", uid=uid or f"uid-{name}", resource_version=version, **metadata),
        PodStatus(phase, ip, (Condition("PodScheduled", "True"), Condition("Ready", ready))),
    )


def desired(key="k", url="http://a", *, renamed=False, **spec):
    return Desired(key, WorkerSpec(url=url, **spec), renamed=renamed)


class EveryEngine:
    """A network on which every address has an engine that is up and serves the model `m`, in `dp_size` ranks."""

    def __init__(self, dp_size=1):
        self.down = set()
        models = {"data": [{"id": "m", "owned_by": "sglang"}]}
        info = {"served_model_name": "m", "dp_size": dp_size}
        self.answers = {"v1/models": json.dumps(models).encode(), "server_info": json.dumps(info).encode()}

    async def get(self, url, *, api_key=None, timeout_secs, max_bytes=0):
        base, _, path = url.partition("://")[2].partition("/")
        if f"http://{base}" in self.down:
            return Fetched(503, {}, b"")
        return Fetched(200, {}, self.answers.get(path, b"{}"))


class Site:
    """A reconciler with a registry, a registrar and engines. Time passes only when somebody sleeps."""

    def __init__(self, clock, *, capacity=1000, concurrency=200, dp_aware=False, dp_size=1):
        self.registry = Registry()
        self.engines = EveryEngine(dp_size)
        self.metrics = Metrics()
        self.jobs = JobQueue(capacity=capacity, concurrency=concurrency, now=clock)
        self.registrar = Registrar(
            self.registry,
            self.jobs,
            Inspector(self.engines, sleep=clock.sleep),
            lambda _spec: Breaker(BreakerOptions()),
            options=RegistrarOptions(startup_timeout_secs=60, startup_check_interval_secs=30, dp_aware=dp_aware),
            health=HealthOptions(drain_settle_secs=5),
            now=clock,
            sleep=clock.sleep,
        )
        self.rings = 0
        self.reconciler = Reconciler(
            SOURCE,
            self.registry,
            self.registrar,
            self.jobs,
            self.metrics,
            self._rung,
            in_place=not dp_aware,
            now=clock,
        )

    def _rung(self):
        self.rings += 1

    @property
    def owned(self):
        """Ids of registrations by key: what was registered from here and is not on its way out."""
        return {key: mine.worker_id for key, mine in self.reconciler._owned.items()}

    @property
    def by_url(self):
        return self.registry.snapshot.by_url

    def count(self, name, label):
        return getattr(self.metrics, name).labels(SOURCE, label).value

    @property
    def busy(self):
        return bool(self.jobs._waiting or self.jobs._running or self.jobs._beside)


# Of the session, so that properties can use them: they keep nothing.
@pytest.fixture(name="make_pod", scope="session")
def _make_pod():
    return make_pod


@pytest.fixture(name="desired", scope="session")
def _desired():
    return desired


@pytest.fixture(scope="session")
def new_site(new_clock):
    """A site with a clock of its own, on whatever loop runs."""
    return lambda: Site(new_clock())


@pytest.fixture
def make_site(clock):
    return lambda **options: Site(clock, **options)


@pytest.fixture
def site(make_site):
    return make_site()
