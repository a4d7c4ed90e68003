import pytest

from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.registry import Registry, StaleRevision, UrlTaken
from smg.fleet.spec import HealthSpec, ResilienceSpec, WorkerPatch, WorkerSpec
from smg.fleet.worker import ModelCard, Status, Worker

M = (ModelCard("m"),)


def worker(name="a", *, models=M, status=Status.READY, spec=None, **fields):
    url = f"http://{name}"
    spec = spec or WorkerSpec(url=url)
    breaker = Breaker(BreakerOptions())
    return Worker(name, url, url, breaker, models=models, status=status, spec=spec, **fields)


def watched(registry):
    changes = []
    registry.subscribe(changes.append)
    return changes


def test_a_worker_comes_and_goes_with_an_event_each():
    registry = Registry()
    changes = watched(registry)
    a = worker()
    registry.add(a)
    assert registry.snapshot.serving("m") == (a,)
    assert registry.remove("a") is a
    assert registry.snapshot.serving("m") == ()
    assert [(c.kind, c.worker) for c in changes] == [("added", a), ("removed", a)]


def test_removing_a_stranger_says_nothing():
    registry = Registry()
    changes = watched(registry)
    assert registry.remove("nobody") is None
    assert changes == []


def test_a_snapshot_once_taken_does_not_change():
    registry = Registry()
    registry.add(worker("a"))
    before = registry.snapshot
    registry.add(worker("b"))
    assert [w.id for w in before.workers] == ["a"]
    assert [w.id for w in registry.snapshot.workers] == ["a", "b"]
    assert registry.snapshot.version == before.version + 1


def test_listeners_see_the_snapshot_in_place():
    registry = Registry()
    seen = []
    registry.subscribe(lambda _change: seen.append(len(registry.snapshot.workers)))
    registry.add(worker("a"))
    registry.remove("a")
    assert seen == [1, 0]


def test_two_workers_cannot_have_one_url():
    registry = Registry()
    a, twin = worker("a"), worker("a")
    twin.id = "twin"
    registry.add(a)
    with pytest.raises(UrlTaken) as taken:
        registry.add(twin)
    assert (taken.value.worker_id, taken.value.registered) == ("a", True)
    assert registry.snapshot.workers == (a,)


def test_a_reserved_url_is_taken_until_released():
    registry = Registry()
    registry.reserve("a", "http://a")
    with pytest.raises(UrlTaken) as taken:
        registry.reserve("b", "http://a")
    assert (taken.value.worker_id, taken.value.registered) == ("a", False)
    registry.release("a")
    registry.reserve("b", "http://a")


def test_registration_ends_the_reservation_and_the_url_stays_taken():
    registry = Registry()
    registry.reserve("a", "http://a")
    registry.add(worker("a"))
    with pytest.raises(UrlTaken) as taken:
        registry.reserve("b", "http://a")
    assert taken.value.registered
    registry.remove("a")
    registry.reserve("b", "http://a")


def test_the_address_behind_a_rank_is_taken_too():
    registry = Registry()
    rank = worker("a")
    rank.url = "http://a@0"
    registry.add(rank)
    with pytest.raises(UrlTaken):
        registry.reserve("b", "http://a")


def test_status_moves_with_the_right_revision_only():
    registry = Registry()
    a = worker()
    registry.add(a)
    changes = watched(registry)
    assert registry.set_status("a", Status.NOT_READY, 0) is True
    assert (a.status, registry.snapshot.ready) == (Status.NOT_READY, ())
    registry.patch("a", WorkerPatch(priority=1))
    assert registry.set_status("a", Status.READY, 0) is False
    assert a.status is Status.NOT_READY
    assert registry.set_status("a", Status.READY, 1) is True
    assert [c.kind for c in changes] == ["status", "updated", "status"]


def test_moving_nowhere_says_nothing():
    registry = Registry()
    registry.add(worker())
    changes = watched(registry)
    assert registry.set_status("a", Status.READY, 0) is False
    assert registry.set_status("nobody", Status.READY, 0) is False
    assert changes == []


def test_a_draining_worker_only_leaves():
    registry = Registry()
    a = worker()
    registry.add(a)
    registry.set_status("a", Status.DRAINING, 0)
    assert registry.set_status("a", Status.READY, 0) is False
    with pytest.raises(StaleRevision):
        registry.replace("a", 0, worker())
    assert a.status is Status.DRAINING


def test_a_worker_that_is_not_ready_is_not_overloaded():
    registry = Registry()
    a = worker()
    registry.add(a)
    a.overloaded = True
    registry.set_status("a", Status.NOT_READY, 0)
    assert a.overloaded is False


def test_a_patch_merges_and_keeps_the_service_going():
    registry = Registry()
    spec = WorkerSpec(url="http://a", labels={"x": "1"}, api_key="key", health=HealthSpec(timeout_secs=3))
    a = worker(spec=spec, labels={"tp_size": "1", "x": "1"}, api_key="key")
    registry.add(a)
    patch = WorkerPatch(cost=2.0, labels={"y": "2"}, health=HealthSpec(disable_health_check=True))
    assert registry.patch("a", patch) is a
    assert a.labels == {"tp_size": "1", "x": "1", "y": "2"}
    assert (a.priority, a.cost, a.api_key) == (50, 2.0, "key")
    assert a.spec.labels == {"x": "1", "y": "2"}
    assert a.spec.health == HealthSpec(timeout_secs=3, disable_health_check=True)
    assert (a.status, a.revision) == (Status.READY, 1)
    registry.patch("a", WorkerPatch(api_key=""))
    assert a.api_key is None
    assert registry.patch("nobody", patch) is None


def test_a_worker_without_a_spec_can_be_patched():
    registry = Registry()
    a = worker(priority=7)
    a.spec = None
    registry.add(a)
    registry.patch("a", WorkerPatch(cost=2.0))
    assert (a.priority, a.cost) == (7, 2.0)


def test_a_replacement_is_the_same_worker_with_another_registration():
    registry = Registry()
    a = worker(labels={"role": "policy"}, priority=3)
    registry.add(a)
    a.load = 4
    breaker = a.breaker
    changes = watched(registry)
    fresh = worker(models=(ModelCard("n"),), labels={"n": "1"}, runtime="vllm")
    assert registry.replace("a", 0, fresh) is a
    assert registry.snapshot.by_id["a"] is a
    assert (a.model_id, a.labels, a.priority, a.runtime) == ("n", {"n": "1"}, 50, "vllm")
    assert (a.load, a.revision, a.status) == (4, 1, Status.READY)
    assert a.breaker is breaker
    assert (registry.snapshot.serving("m"), registry.snapshot.serving("n")) == ((), (a,))
    assert [(c.kind, c.old_models) for c in changes] == [("updated", (ModelCard("m"),))]


@pytest.mark.parametrize(("before", "after"), [(False, True), (True, False)])
def test_a_replacement_brings_the_protocol_that_was_found_for_it(before, after):
    registry = Registry()
    a = worker(http2=before)
    registry.add(a)
    registry.replace("a", 0, worker(http2=after))
    assert a.http2 is after


def test_other_breaker_settings_bring_another_breaker():
    registry = Registry()
    a = worker()
    registry.add(a)
    spec = WorkerSpec(url="http://a", resilience=ResilienceSpec(cb_failure_threshold=2))
    fresh = worker(spec=spec)
    registry.replace("a", 0, fresh)
    assert a.breaker is fresh.breaker


def test_a_late_replacement_changes_nothing():
    registry = Registry()
    a = worker()
    registry.add(a)
    registry.patch("a", WorkerPatch(priority=9))
    with pytest.raises(StaleRevision):
        registry.replace("a", 0, worker(models=(ModelCard("n"),)))
    with pytest.raises(StaleRevision):
        registry.replace("nobody", 0, worker())
    assert (a.model_id, a.priority) == ("m", 9)


def test_configured_aliases_join_the_cards_of_their_model():
    registry = Registry({"big": "m", "large": "m", "other": "n"})
    a = worker(models=(ModelCard("m", ("own",)),))
    registry.add(a)
    assert a.models[0].aliases == ("own", "big", "large")
    assert [registry.snapshot.resolve(name) for name in ("big", "own", "other", "m")] == ["m", "m", "other", "m"]


def test_a_configured_alias_exists_while_its_model_does():
    registry = Registry({"nick": "m"})
    assert registry.snapshot.resolve("nick") == "nick"
    registry.add(worker())
    assert registry.snapshot.resolve("nick") == "m"
    registry.remove("a")
    assert registry.snapshot.resolve("nick") == "nick"
    registry.add(worker())
    assert registry.snapshot.resolve("nick") == "m"


def test_an_alias_passes_on_when_its_owner_leaves():
    registry = Registry()
    registry.add(worker("a", models=(ModelCard("m", ("nick",)),)))
    registry.add(worker("b", models=(ModelCard("n", ("nick",)),)))
    assert registry.snapshot.resolve("nick") == "m"
    registry.add(worker("c", models=(ModelCard("nick"),)))
    assert registry.snapshot.resolve("nick") == "nick"
    registry.remove("c")
    registry.remove("a")
    assert registry.snapshot.resolve("nick") == "n"


def test_a_late_claim_does_not_take_an_alias_from_its_owner():
    registry = Registry()
    registry.add(worker("a"))
    registry.add(worker("b", models=(ModelCard("n", ("nick",)),)))
    registry.replace("a", 0, worker("a", models=(ModelCard("m", ("nick",)),)))
    assert registry.snapshot.resolve("nick") == "n"
    registry.remove("b")
    assert registry.snapshot.resolve("nick") == "m"
