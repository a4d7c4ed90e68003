import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smg.fleet.spec import HealthSpec, WorkerPatch, WorkerSpec
from smg.fleet.worker import ModelCard, Status


@pytest.fixture
def passed(site, eventually):
    """A pass, and the end of every job that it begins."""

    async def run(*wanted):
        site.reconciler.apply(wanted)
        await eventually(lambda: not site.busy)

    return run


async def test_a_desired_worker_is_registered(site, passed, desired):
    await passed(desired(labels={"x": "y"}, api_key="key"))
    worker = site.by_url["http://a"]
    assert (worker.status, worker.model_id, worker.api_key, worker.labels["x"]) == (Status.READY, "m", "key", "y")
    assert site.owned == {"k": worker.id}
    assert site.count("discovery_registrations", "success") == 1


async def test_a_second_pass_changes_nothing(site, passed, desired):
    await passed(desired())
    version = site.registry.snapshot.version
    await passed(desired())
    assert site.registry.snapshot.version == version


async def test_what_is_no_longer_desired_drains_and_goes(site, desired, passed, clock):
    await passed(desired())
    site.reconciler.apply([])
    assert site.by_url["http://a"].status is Status.DRAINING
    assert site.owned == {}
    await passed()
    assert site.by_url == {}
    assert clock.slept[-1] == 5
    assert site.count("discovery_deregistrations", "reconciled") == 1


async def test_a_registration_under_way_ends_when_it_is_no_longer_desired(site, passed, desired):
    site.engines.down.add("http://a")
    site.reconciler.apply([desired()])
    await passed()
    assert site.by_url == {}
    assert site.owned == {}
    assert site.count("discovery_deregistrations", "reconciled") == 1
    assert site.count("discovery_registrations", "failed") == 0
    site.engines.down.clear()
    await passed(desired())
    assert list(site.by_url) == ["http://a"]


async def test_workers_of_others_are_left_alone(site, passed, desired, eventually):
    site.registrar.add(WorkerSpec(url="http://a"))
    site.registrar.add(WorkerSpec(url="http://other"))
    await eventually(lambda: not site.busy)
    before = dict(site.by_url)
    await passed(desired())
    await passed(desired())
    await passed()
    assert site.by_url == before
    assert site.owned == {}
    assert site.count("discovery_registrations", "duplicate") == 1


async def test_an_address_is_taken_over_when_its_owner_leaves(site, passed, desired, eventually):
    foreign = site.registrar.add(WorkerSpec(url="http://a"))
    await eventually(lambda: not site.busy)
    await passed(desired())
    site.registrar.remove(foreign)
    await eventually(lambda: site.rings)
    await passed(desired())
    assert site.owned == {"k": site.by_url["http://a"].id}


async def test_another_identity_gets_the_address_when_its_predecessor_has_drained(site, passed, desired):
    await passed(desired("uid-1"))
    first = site.by_url["http://a"]
    site.reconciler.apply([desired("uid-2")])
    assert site.by_url["http://a"] is first
    await passed(desired("uid-2"))
    assert site.rings
    await passed(desired("uid-2"))
    assert site.by_url["http://a"] is not first
    assert list(site.owned) == ["uid-2"]
    assert site.count("discovery_registrations", "duplicate") == 0


async def test_another_identity_gets_the_address_at_once_when_there_is_nothing_to_drain(site, passed, desired):
    await passed(desired("uid-1", health=HealthSpec(drain_settle_secs=0)))
    await passed(desired("uid-2"))
    assert site.owned == {"uid-2": site.by_url["http://a"].id}


async def test_a_changed_spec_is_changed_in_place(site, passed, desired):
    await passed(desired(priority=1))
    worker = site.by_url["http://a"]
    await passed(desired(priority=2))
    assert site.by_url["http://a"] is worker
    assert worker.priority == 2
    assert site.count("discovery_registrations", "success") == 1


async def test_a_changed_spec_reaches_a_registration_under_way(site, desired, passed, clock):
    site.engines.down.add("http://a")
    site.reconciler.apply([desired(priority=1)])
    site.reconciler.apply([desired(priority=2)])
    site.engines.down.clear()
    await passed(desired(priority=2))
    assert site.by_url["http://a"].priority == 2


async def test_what_an_operator_changed_stays(site, passed, desired):
    await passed(desired(priority=1))
    worker = site.by_url["http://a"]
    site.registrar.patch(worker.id, WorkerPatch(priority=9))
    await passed(desired(priority=1))
    assert worker.priority == 9


async def test_a_change_that_failed_is_tried_again(site, passed, desired):
    await passed(desired(priority=1))
    worker = site.by_url["http://a"]
    site.reconciler.apply([desired(priority=2)])
    site.registrar.patch(worker.id, WorkerPatch(cost=2.0))  # the change finds the worker at another revision
    await passed(desired(priority=2))
    assert worker.priority == 1
    await passed(desired(priority=2))
    assert worker.priority == 2


async def test_a_worker_that_somebody_removed_comes_back(site, passed, desired, eventually):
    await passed(desired())
    first = site.by_url["http://a"]
    site.registrar.remove(first.id)
    await passed(desired())  # it still has its address
    assert site.by_url == {}
    assert site.rings
    await passed(desired())
    assert site.by_url["http://a"].id != first.id


async def test_a_registration_that_failed_is_counted_and_tried_again(site, passed, desired):
    site.engines.down.add("http://a")
    await passed(desired())
    assert site.by_url == {}
    site.engines.down.clear()
    await passed(desired())
    assert site.count("discovery_registrations", "failed") == 1
    assert list(site.by_url) == ["http://a"]


async def test_what_the_job_queue_cannot_take_waits_for_the_next_pass(make_site, desired, eventually):
    site = make_site(capacity=1, concurrency=1)
    wanted = [desired(str(n), f"http://{n}") for n in range(5)]
    for _ in range(5):
        site.reconciler.apply(wanted)
        await eventually(lambda: not site.busy)
    assert len(site.by_url) == 5
    assert site.count("discovery_registrations", "failed") == 2


async def test_the_engine_s_own_name_becomes_an_alias_of_a_renamed_model(site, passed, desired):
    one = desired(models=(ModelCard("mine"),), renamed=True)
    await passed(one)
    assert site.by_url["http://a"].model_id == "mine"
    assert site.rings
    await passed(one)
    assert site.registry.snapshot.resolve("m") == "mine"
    version = site.registry.snapshot.version
    await passed(one)
    assert site.registry.snapshot.version == version


@pytest.fixture
def ranked(make_site):
    """A site where each rank is a worker of its own, and every engine has two."""
    return make_site(dp_aware=True, dp_size=2)


async def test_the_ranks_of_an_engine_come_and_go_together(ranked, desired, eventually):
    for _ in range(2):
        ranked.reconciler.apply([desired()])
        await eventually(lambda: not ranked.busy)
    assert list(ranked.by_url) == ["http://a@0", "http://a@1"]
    assert ranked.count("discovery_registrations", "success") == 1
    ranked.reconciler.apply([])
    assert {worker.status for worker in ranked.by_url.values()} == {Status.DRAINING}
    await eventually(lambda: not ranked.busy)
    assert ranked.by_url == {}
    assert ranked.count("discovery_deregistrations", "reconciled") == 1


async def test_an_engine_with_ranks_that_changes_is_taken_out_and_added_anew(ranked, desired, eventually):
    for priority in (1, 2, 2):
        ranked.reconciler.apply([desired(priority=priority)])
        await eventually(lambda: not ranked.busy)
    assert [worker.priority for worker in ranked.by_url.values()] == [2, 2]


async def test_an_engine_comes_back_when_its_last_rank_was_removed(ranked, desired, eventually):
    ranked.reconciler.apply([desired()])
    await eventually(lambda: not ranked.busy)
    first, second = ranked.by_url.values()
    ranked.registrar.remove(first.id)
    await eventually(lambda: not ranked.busy)
    ranked.reconciler.apply([desired()])
    assert list(ranked.by_url) == ["http://a@1"]
    assert ranked.count("discovery_registrations", "duplicate") == 0
    ranked.registrar.remove(second.id)
    await eventually(lambda: not ranked.busy)
    assert ranked.rings
    ranked.reconciler.apply([desired()])
    await eventually(lambda: not ranked.busy)
    assert list(ranked.by_url) == ["http://a@0", "http://a@1"]


async def test_a_renamed_model_of_ranks_has_its_new_name_alone(ranked, desired, eventually):
    one = desired(models=(ModelCard("mine"),), renamed=True)
    for _ in range(3):
        ranked.reconciler.apply([one])
        await eventually(lambda: not ranked.busy)
    assert {worker.model_id for worker in ranked.by_url.values()} == {"mine"}
    assert ranked.count("discovery_registrations", "success") == 1


async def test_another_s_worker_at_the_address_of_a_failed_registration_is_not_taken_for_ours(
    site, passed, desired, eventually
):
    site.engines.down.add("http://a")
    await passed(desired())
    site.engines.down.clear()
    foreign = site.registrar.add(WorkerSpec(url="http://a"))
    await eventually(lambda: not site.busy)
    await passed()
    assert [worker.id for worker in site.by_url.values()] == [foreign]


async def test_a_pass_tells_how_many_workers_are_desired_and_how_long_it_took(site, passed, desired):
    await passed(desired("a", "http://a"), desired("b", "http://b"), desired("b", "http://c"))
    assert site.metrics.discovery_workers_discovered.labels("kubernetes").value == 2
    assert sum(site.metrics.discovery_sync_duration_seconds.labels("kubernetes").counts) == 1


# --- the law: whatever happens, the fleet ends up as desired

KEYS = st.sampled_from(["u1", "u2", "u3", "u4"])
URLS = st.sampled_from(["http://a", "http://b", "http://c"])
EVENTS = st.one_of(
    st.tuples(st.just("desire"), KEYS, URLS, st.integers(0, 1)),
    st.tuples(st.just("drop"), KEYS),
    st.tuples(st.just("pass")),
    st.tuples(st.just("turn"), st.integers(1, 30)),
    st.tuples(st.just("foreign"), URLS),
    st.tuples(st.just("leaves"), URLS),
    st.tuples(st.just("removed"), URLS),
    st.tuples(st.just("down"), URLS),
    st.tuples(st.just("up"), URLS),
)


class Story:
    """Events in a fleet, and in the end a time when nothing more happens."""

    def __init__(self, site, desired):
        self.site = site
        self.desired = desired
        self.wanted = {}
        self.foreign = {}

    def desire(self, key, url, priority):
        self.wanted[key] = self.desired(key, url, priority=priority)

    def drop(self, key):
        self.wanted.pop(key, None)

    def foreign_at(self, url):
        try:
            self.foreign[url] = self.site.registrar.add(WorkerSpec(url=url))
        except Exception:  # noqa: BLE001  the address is taken: then there is no other worker
            return

    def leaves(self, url):
        if url in self.foreign:
            self.site.registrar.remove(self.foreign.pop(url))

    def removed(self, url):
        worker = self.site.by_url.get(url)
        if worker is not None and self.foreign.get(url) != worker.id:
            self.site.registrar.remove(worker.id)

    async def happen(self, what, *args):
        match what:
            case "pass":
                self.site.reconciler.apply(self.wanted.values())
            case "turn":
                for _ in range(args[0]):
                    await asyncio.sleep(0)
            case "foreign":
                self.foreign_at(*args)
            case "down":
                self.site.engines.down.add(*args)
            case "up":
                self.site.engines.down.discard(*args)
            case _:
                getattr(self, what)(*args)

    async def settle(self, eventually):
        self.site.engines.down.clear()
        for _ in range(6):
            self.site.reconciler.apply(self.wanted.values())
            await eventually(lambda: not self.site.busy)


@settings(max_examples=150)
@given(events=st.lists(EVENTS, max_size=25))
def test_after_any_events_the_fleet_holds_what_is_desired_and_what_others_brought(
    new_site, desired, eventually, events
):
    async def tell():
        story = Story(new_site(), desired)
        for event in events:
            await story.happen(*event)
        await story.settle(eventually)
        by_url = story.site.by_url
        foreign = {url for url, owner in story.foreign.items() if url in by_url and by_url[url].id == owner}
        ours = {}
        for key, one in story.wanted.items():
            if one.spec.url not in foreign:
                ours.setdefault(one.spec.url, (key, one.spec.priority))
        owned = {by_url[url].id: url for url in ours}
        assert set(by_url) == foreign | set(ours)
        assert {url: by_url[url].priority for url in ours} == {url: priority for url, (_, priority) in ours.items()}
        assert set(story.site.owned.values()) == set(owned)
        assert set(story.site.owned) == {key for key, _ in ours.values()}

    asyncio.run(tell())
