import asyncio
import json
from dataclasses import replace
from uuid import UUID

import pytest

from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.health import HealthOptions
from smg.fleet.registry import UrlTaken
from smg.fleet.spec import HealthSpec, SpecError, WorkerPatch, WorkerSpec
from smg.fleet.worker import ModelCard, Status
from smg.services.inspection import Inspector
from smg.services.jobs import JobQueue, QueueFull
from smg.services.registrar import Registrar, RegistrarOptions, new_worker_id

URL = "http://a"
MODELS = json.dumps({"data": [{"id": "m", "owned_by": "vllm"}]}).encode()


class Site:
    """A registrar with everything around it."""

    def __init__(self, registry, engines, clock, eventually, *, capacity=10, concurrency=10):
        self.registry = registry
        self.engines = engines
        self.clock = clock
        self.eventually = eventually
        self.jobs = JobQueue(capacity=capacity, concurrency=concurrency, now=clock)
        self.health = HealthOptions(drain_settle_secs=5)
        self.registrar = Registrar(
            registry,
            self.jobs,
            Inspector(engines, sleep=clock.sleep),
            lambda _spec: Breaker(BreakerOptions()),
            options=RegistrarOptions(startup_timeout_secs=100, startup_check_interval_secs=30),
            health=self.health,
            now=clock,
            sleep=self.sleep,
        )
        self.held = None

    async def sleep(self, secs):
        """Like the clock's, unless the test holds it."""
        if self.held is not None and secs:
            await self.held.wait()
        await self.clock.sleep(secs)

    def up(self, url=URL):
        self.engines.answers[url + "/health"] = 200
        self.engines.answers[url + "/v1/models"] = 200, MODELS

    async def added(self, **fields):
        """A registered worker."""
        self.up()
        worker_id = self.registrar.add(WorkerSpec(url=URL, **fields))
        await self.settled(worker_id)
        return self.registry.snapshot.by_id[worker_id]

    async def settled(self, worker_id):
        await self.eventually(lambda: self.registrar.pending(worker_id) is None)
        await self.eventually(lambda: (job := self.jobs.record(worker_id)) is None or job.status == "failed")


@pytest.fixture
def site(registry, engines, clock, eventually):
    return Site(registry, engines, clock, eventually)


async def test_an_engine_that_is_up_becomes_a_ready_worker(site):
    worker = await site.added(labels={"role": "policy"}, priority=3, api_key="key", bootstrap_port=9)
    assert (worker.url, worker.status, worker.runtime, worker.model_id) == (URL, Status.READY, "vllm", "m")
    assert worker.labels == {"served_model_name": "m", "role": "policy"}
    assert (worker.priority, worker.api_key, worker.bootstrap_port) == (3, "key", 9)
    assert site.registry.snapshot.serving("m") == (worker,)
    assert str(UUID(worker.id)) == worker.id
    assert site.engines.calls[0] == (URL + "/health", None)


async def test_labels_of_the_spec_win_over_discovered_ones(site):
    worker = await site.added(labels={"served_model_name": "mine"})
    assert (worker.labels["served_model_name"], worker.model_id) == ("mine", "mine")


async def test_until_then_it_is_pending(site):
    site.held = asyncio.Event()
    site.engines.answers[URL + "/health"] = 503
    worker_id = site.registrar.add(WorkerSpec(url=URL))
    assert site.registrar.pending(worker_id).url == URL
    assert site.jobs.record(worker_id).job_type == "AddWorker"
    with pytest.raises(UrlTaken) as taken:
        site.registrar.add(WorkerSpec(url=URL))
    assert (taken.value.worker_id, taken.value.registered) == (worker_id, False)
    assert site.registry.snapshot.workers == ()
    site.up()
    site.held.set()
    await site.settled(worker_id)
    assert site.registry.snapshot.by_id[worker_id].status is Status.READY


async def test_it_is_looked_at_every_interval_until_it_is_up(site):
    looks = iter([503, "down", 503])
    site.up()
    site.engines.answers[URL + "/health"] = lambda: next(looks, 200)
    await site.settled(site.registrar.add(WorkerSpec(url=URL)))
    assert site.clock.slept == [0, 30, 30, 30]
    assert len(site.registry.snapshot.workers) == 1


async def test_one_that_never_comes_up_is_given_up_and_forgotten(site):
    worker_id = site.registrar.add(WorkerSpec(url=URL))
    await site.settled(worker_id)
    assert site.jobs.record(worker_id).status == "failed"
    assert site.clock.slept == [0, 30, 30, 30, 10]
    assert site.registry.snapshot.workers == ()
    site.registrar.add(WorkerSpec(url=URL))
    await site.jobs.close()


async def test_a_url_that_is_registered_stays_with_its_worker(site):
    worker = await site.added()
    with pytest.raises(UrlTaken) as taken:
        site.registrar.add(WorkerSpec(url=URL))
    assert (taken.value.worker_id, taken.value.registered) == (worker.id, True)


async def test_a_full_queue_leaves_nothing_behind(registry, engines, clock, eventually):
    site = Site(registry, engines, clock, eventually, capacity=0, concurrency=0)
    with pytest.raises(QueueFull):
        site.registrar.add(WorkerSpec(url=URL))
    registry.reserve("x", URL)


async def test_static_workers_start_at_once_with_the_gateways_key(registry, engines, clock, eventually):
    site = Site(registry, engines, clock, eventually, capacity=0, concurrency=0)
    urls = [f"http://w{n}" for n in range(5)]
    for url in urls:
        site.up(url)
    site.registrar.add_specs(WorkerSpec(url=url, api_key="key") for url in [*urls, urls[0] + "/"])
    await eventually(lambda: len(registry.snapshot.workers) == 5)
    assert [w.url for w in registry.snapshot.workers] == urls
    assert {w.api_key for w in registry.snapshot.workers} == {"key"}
    assert [url for url, _ in engines.calls[:5]] == [url + "/health" for url in urls]


def test_a_static_url_that_is_none_is_refused(site):
    with pytest.raises(SpecError):
        site.registrar.add_specs([WorkerSpec(url="127.0.0.1:1")])


async def test_a_provider_is_registered_without_being_contacted(site):
    spec = WorkerSpec(url="https://api.openai.com", models=(ModelCard("gpt-x"),))
    worker_id = site.registrar.add(spec)
    await site.settled(worker_id)
    worker = site.registry.snapshot.by_id[worker_id]
    assert (worker.runtime, worker.model_id, worker.status) == ("external", "gpt-x", Status.READY)
    assert site.engines.calls == []


# --- removal


async def test_a_ready_worker_drains_and_is_then_gone(site):
    worker = await site.added()
    site.held = asyncio.Event()
    assert site.registrar.remove(worker.id) is True
    assert worker.status is Status.DRAINING
    assert site.jobs.record(worker.id).job_type == "RemoveWorker"
    await asyncio.sleep(0)
    assert site.registry.snapshot.workers == (worker,)
    assert site.registrar.remove(worker.id) is True
    site.held.set()
    await site.eventually(lambda: site.registry.snapshot.workers == ())
    assert site.clock.slept[-1] == 5
    assert site.registrar.remove(worker.id) is False


async def test_its_own_window_beats_the_gateways(site):
    worker = await site.added(health=HealthSpec(drain_settle_secs=1))
    site.registrar.remove(worker.id)
    await site.eventually(lambda: site.registry.snapshot.workers == ())
    assert site.clock.slept[-1] == 1


async def test_without_a_window_it_is_gone_at_once(site):
    worker = await site.added(health=HealthSpec(drain_settle_secs=0))
    site.registrar.remove(worker.id)
    assert site.registry.snapshot.workers == ()
    assert site.jobs.record(worker.id) is None


async def test_a_worker_that_is_not_ready_is_gone_at_once(site):
    worker = await site.added()
    site.registry.set_status(worker.id, Status.NOT_READY, worker.revision)
    site.registrar.remove(worker.id)
    assert site.registry.snapshot.workers == ()


async def test_removing_a_pending_worker_ends_its_registration_for_good(site, eventually):
    site.held = asyncio.Event()
    worker_id = site.registrar.add(WorkerSpec(url=URL))
    await eventually(lambda: site.engines.calls)
    assert site.registrar.remove(worker_id) is True
    assert site.registrar.pending(worker_id) is None
    assert site.jobs.record(worker_id) is None
    site.up()
    site.held.set()
    await site.jobs.close()
    assert site.registry.snapshot.workers == ()
    assert len(site.engines.calls) == 1
    again = await site.added()
    assert again.id != worker_id


async def test_a_registration_can_be_removed_before_it_began(site):
    site.up()
    worker_id = site.registrar.add(WorkerSpec(url=URL))
    site.registrar.remove(worker_id)
    await site.jobs.close()
    assert site.engines.calls == []
    site.registry.reserve("x", URL)


async def test_removing_a_worker_ends_its_update(site, eventually):
    worker = await site.added(health=HealthSpec(drain_settle_secs=0))
    site.engines.answers[URL + "/health"] = 503
    site.held = asyncio.Event()
    site.registrar.update(worker.id, WorkerSpec(url=URL, priority=9))
    await eventually(lambda: site.jobs.record(worker.id).status == "processing")
    site.registrar.remove(worker.id)
    assert site.jobs.record(worker.id) is None
    asked = len(site.engines.calls)
    site.held.set()
    await site.jobs.close()
    assert site.registry.snapshot.workers == ()
    assert len(site.engines.calls) == asked


# --- changes


async def test_an_update_replaces_the_whole_registration(site):
    worker = await site.added(labels={"role": "policy"}, priority=3)
    assert site.registrar.update(worker.id, WorkerSpec(url=URL, labels={"n": "1"})) is True
    assert worker.priority == 3
    await site.settled(worker.id)
    assert site.registry.snapshot.workers == (worker,)
    assert (worker.priority, worker.labels) == (50, {"served_model_name": "m", "n": "1"})
    assert worker.status is Status.READY


async def test_an_update_cannot_move_a_worker(site):
    worker = await site.added()
    with pytest.raises(SpecError, match="url"):
        site.registrar.update(worker.id, WorkerSpec(url="http://b"))


async def test_a_late_update_fails_instead_of_overwriting(site):
    worker = await site.added()
    site.registrar.update(worker.id, WorkerSpec(url=URL, priority=9))
    site.registrar.patch(worker.id, WorkerPatch(priority=4))
    await site.settled(worker.id)
    assert worker.priority == 4
    assert site.jobs.record(worker.id).status == "failed"
    assert site.jobs.record(worker.id).job_type == "UpdateWorker"


async def test_nobody_can_be_changed_or_removed(site):
    assert site.registrar.update("nobody", WorkerSpec(url=URL)) is False
    assert site.registrar.patch("nobody", WorkerPatch()) is False
    assert site.registrar.remove("nobody") is False


async def test_a_leaving_worker_cannot_be_updated(site):
    worker = await site.added()
    site.held = asyncio.Event()
    site.registrar.remove(worker.id)
    assert site.registrar.update(worker.id, WorkerSpec(url=URL)) is False
    await site.jobs.close()


async def test_changes_of_a_pending_worker_take_part_in_its_registration(site, eventually):
    site.held = asyncio.Event()
    worker_id = site.registrar.add(WorkerSpec(url=URL, priority=3))
    await eventually(lambda: site.engines.calls)
    with pytest.raises(SpecError):
        site.registrar.update(worker_id, WorkerSpec(url="http://b"))
    assert site.registrar.update(worker_id, WorkerSpec(url=URL, priority=8)) is True
    assert site.registrar.patch(worker_id, WorkerPatch(api_key="key")) is True
    site.up()
    site.held.set()
    await site.settled(worker_id)
    worker = site.registry.snapshot.by_id[worker_id]
    assert (worker.priority, worker.api_key) == (8, "key")
    assert site.engines.calls[-1][1] == "key"


async def test_a_patch_keeps_the_status(site):
    worker = await site.added()
    site.registry.set_status(worker.id, Status.NOT_READY, worker.revision)
    site.registrar.patch(worker.id, WorkerPatch(priority=4, health=HealthSpec(timeout_secs=1)))
    assert (worker.priority, worker.status) == (4, Status.NOT_READY)


async def test_a_worker_that_is_no_longer_probed_is_ready_at_once(site):
    worker = await site.added()
    site.registry.set_status(worker.id, Status.NOT_READY, worker.revision)
    site.registrar.patch(worker.id, WorkerPatch(health=HealthSpec(disable_health_check=True)))
    assert worker.status is Status.READY


async def test_a_grpc_worker_is_ready_when_its_address_takes_connections(site):
    site.engines.answers["grpc://a"] = 200
    worker_id = site.registrar.add(WorkerSpec(url="grpc://a", labels={"model_id": "m"}))
    await site.settled(worker_id)
    worker = site.registry.snapshot.by_id[worker_id]
    assert (worker.connection_mode, worker.status, worker.model_id) == ("grpc", Status.READY, "m")


async def test_a_grpc_worker_that_is_down_is_waited_for(site):
    site.held = asyncio.Event()
    worker_id = site.registrar.add(WorkerSpec(url="grpc://a"))
    await site.eventually(lambda: site.engines.calls)
    assert site.registry.snapshot.workers == ()
    site.engines.answers["grpc://a"] = 200
    site.held.set()
    await site.settled(worker_id)
    assert site.registry.snapshot.by_id[worker_id].status is Status.READY


async def test_a_worker_that_connects_by_itself_is_pending_until_it_does(site):
    worker_id = site.registrar.add(WorkerSpec(url="ipc:///run/a", runtime_type="vllm"))
    await site.settled(worker_id)
    worker = site.registry.snapshot.by_id[worker_id]
    assert (worker.connection_mode, worker.status, worker.runtime) == ("zmq", Status.PENDING, "vllm")
    assert site.engines.calls == []
    site.registrar.patch(worker_id, WorkerPatch(health=HealthSpec(disable_health_check=True)))
    assert worker.status is Status.PENDING
    site.registrar.remove(worker_id)
    assert site.registry.snapshot.workers == ()


def test_ids_are_uuids_that_sort_by_time():
    first, second = UUID(new_worker_id()), UUID(new_worker_id())
    assert first != second
    assert (first.version, first.variant) == (7, second.variant)
    assert first.int >> 80 <= second.int >> 80


# --- data-parallel ranks


def says_ranks(site, size, url=URL):
    """An engine of SGLang's kind that says how many ranks it has."""
    site.engines.answers[url + "/health"] = 200
    site.engines.answers[url + "/v1/models"] = 200, json.dumps({"data": [{"id": "m", "owned_by": "sglang"}]}).encode()
    site.engines.answers[url + "/server_info"] = 200, json.dumps({"dp_size": size}).encode()


@pytest.fixture
def ranks(site):
    """Registers an engine while ranks are wanted; returns the workers that came of it."""
    site.registrar._options = replace(site.registrar._options, dp_aware=True)
    specs = []

    def new_breaker(spec):
        specs.append(spec)
        return Breaker(BreakerOptions())

    site.registrar._new_breaker = new_breaker

    async def register(**fields):
        worker_id = site.registrar.add(WorkerSpec(url=URL, **fields))
        await site.settled(worker_id)
        register.worker_id, register.job = worker_id, site.jobs.record(worker_id)
        register.breakers = [spec.url for spec in specs]
        return site.registry.snapshot.workers

    return register


async def test_each_rank_is_a_worker_of_its_own(site, ranks):
    says_ranks(site, 3)
    workers = await ranks(priority=7, api_key="key")
    assert [(w.url, w.base_url, w.dp_rank, w.dp_size) for w in workers] == [
        (f"{URL}@{rank}", URL, rank, 3) for rank in range(3)
    ]
    assert workers[0].id == ranks.worker_id
    assert len({w.id for w in workers}) == len({id(w.breaker) for w in workers}) == 3
    assert {(w.priority, w.api_key, w.status) for w in workers} == {(7, "key", Status.READY)}
    assert ranks.breakers[-3:] == [w.url for w in workers]  # whose moves are counted by these names
    with pytest.raises(UrlTaken):
        site.registrar.add(WorkerSpec(url=URL))


@pytest.mark.parametrize("size", [1, "1"])
async def test_an_engine_with_one_rank_keeps_its_plain_url(site, ranks, size):
    says_ranks(site, size)
    (worker,) = await ranks()
    assert (worker.url, worker.dp_rank, worker.id) == (URL, None, ranks.worker_id)


@pytest.mark.parametrize("size", [None, 0, -1, "two", "²", 1025, 10**30])
async def test_an_engine_that_does_not_tell_its_ranks_is_not_registered(site, ranks, size):
    says_ranks(site, size)
    assert await ranks() == ()
    assert ranks.job.status == "failed"
    assert "data-parallel ranks" in ranks.job.message


async def test_a_label_can_tell_instead(site, ranks):
    says_ranks(site, None)
    assert len(await ranks(labels={"dp_size": "2"})) == 2


async def test_only_sglang_s_requests_can_name_a_rank(site, ranks):
    site.up()  # an engine of vLLM's kind
    (worker,) = await ranks(labels={"dp_size": "4"})
    assert (worker.url, worker.dp_rank) == (URL, None)


async def test_ranks_are_not_looked_for_unless_they_are_wanted(site):
    says_ranks(site, 3)
    worker_id = site.registrar.add(WorkerSpec(url=URL))
    await site.settled(worker_id)
    assert [worker.url for worker in site.registry.snapshot.workers] == [URL]


async def test_one_rank_leaves_alone_and_none_is_replaced(site, ranks):
    says_ranks(site, 2)
    first, second = await ranks(health=HealthSpec(drain_settle_secs=0))
    with pytest.raises(SpecError):
        site.registrar.update(first.id, WorkerSpec(url=URL))
    assert site.registrar.remove(first.id) is True
    assert site.registry.snapshot.workers == (second,)
