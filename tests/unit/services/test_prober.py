import asyncio
from contextlib import suppress

import pytest

from smg.fleet.health import HealthOptions
from smg.fleet.spec import HealthSpec, WorkerPatch
from smg.fleet.worker import Status
from smg.services.prober import MAX_PROBES, Prober

OFTEN = HealthOptions(interval_secs=0, success_threshold=1, failure_threshold=2)
SELDOM = HealthOptions(interval_secs=1_000_000)


class Watch:
    """A running prober, and what it said."""

    def __init__(self, prober):
        self.prober = prober
        self.task = asyncio.get_running_loop().create_task(prober.run())

    async def stop(self):
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


@pytest.fixture
def one_worker(registry, make_worker):
    registry.add(make_worker("a"))


@pytest.fixture
async def run(registry, engines):
    running = []
    seen = []

    def start(health=OFTEN, **options):
        prober = Prober(registry, engines, health, on_probe=lambda w, good: seen.append((w.id, good)), **options)
        running.append(Watch(prober))
        return seen

    yield start
    for watch in running:
        await watch.stop()


async def test_every_worker_is_probed_at_once_with_its_key(registry, engines, make_worker, run, eventually):
    registry.add(make_worker("a", key="secret"))
    seen = run(SELDOM, path="/healthz")
    registry.add(make_worker("b"))
    await eventually(lambda: len(seen) == 2)
    assert engines.calls == [("http://a/healthz", "secret"), ("http://b/healthz", None)]


async def test_a_worker_added_while_it_sleeps_is_probed_at_once(registry, make_worker, run, eventually):
    seen = run(SELDOM)
    for _ in range(5):
        await asyncio.sleep(0)
    registry.add(make_worker("a"))
    await eventually(lambda: seen == [("a", False)])


@pytest.mark.parametrize(
    ("answer", "good"),
    [(200, True), (204, True), (302, False), (404, False), (503, False), ("down", False), ("silent", False)],
)
@pytest.mark.usefixtures("one_worker")
async def test_only_success_is_good(engines, run, eventually, answer, good):
    engines.answers["http://a/health"] = answer
    seen = run(SELDOM)
    await eventually(lambda: seen == [("a", good)])


async def test_failures_take_a_worker_out_and_successes_bring_it_back(registry, engines, make_worker, run, eventually):
    worker = make_worker("a")
    registry.add(worker)
    seen = run()
    await eventually(lambda: worker.status is Status.NOT_READY)
    assert seen == [("a", False)] * 2
    engines.answers["http://a/health"] = 200
    await eventually(lambda: worker.status is Status.READY)


async def test_each_worker_has_its_own_interval(registry, make_worker, run, eventually):
    registry.add(make_worker("often"))
    registry.add(make_worker("seldom", check_interval_secs=1_000_000))
    seen = run()
    await eventually(lambda: seen.count(("often", False)) >= 5)
    assert seen.count(("seldom", False)) == 1


async def test_a_removed_worker_is_probed_no_more(registry, make_worker, run, eventually):
    registry.add(make_worker("a"))
    registry.add(make_worker("b"))
    seen = run()
    await eventually(lambda: len(seen) >= 4)
    registry.remove("a")
    before = seen.count(("a", False))
    await eventually(lambda: seen.count(("b", False)) >= 20)
    assert seen.count(("a", False)) <= before


async def test_a_leaving_worker_is_probed_no_more(registry, make_worker, run, eventually):
    registry.add(make_worker("a"))
    registry.add(make_worker("b"))
    seen = run()
    await eventually(lambda: len(seen) >= 2)
    registry.set_status("a", Status.DRAINING, 0)
    before = seen.count(("a", False))
    await eventually(lambda: seen.count(("b", False)) >= 20)
    assert seen.count(("a", False)) <= before + 1


async def test_without_health_checks_only_workers_that_ask_for_them_are_probed(registry, make_worker, run, eventually):
    registry.add(make_worker("a"))
    registry.add(make_worker("b", disable_health_check=False))
    seen = run(HealthOptions(interval_secs=0, enabled=False))
    await eventually(lambda: len(seen) >= 5)
    assert {name for name, _ in seen} == {"b"}


async def test_checks_can_be_turned_off_and_on_for_a_worker(registry, make_worker, run, eventually):
    registry.add(make_worker("a"))
    registry.add(make_worker("b"))
    seen = run()
    await eventually(lambda: ("a", False) in seen)
    registry.patch("a", WorkerPatch(health=HealthSpec(disable_health_check=True)))
    before = seen.count(("a", False))
    await eventually(lambda: seen.count(("b", False)) >= 20)
    assert seen.count(("a", False)) <= before
    registry.patch("a", WorkerPatch(health=HealthSpec(disable_health_check=False)))
    await eventually(lambda: seen.count(("a", False)) > before)


async def test_a_result_about_an_older_registration_changes_nothing(registry, engines, make_worker, run, eventually):
    worker = make_worker("a", disable_health_check=False)
    registry.add(worker)

    def patched_meanwhile():
        registry.patch("a", WorkerPatch(priority=worker.priority + 1))
        return 503

    engines.answers["http://a/health"] = patched_meanwhile
    seen = run()
    await eventually(lambda: worker.priority >= 60)
    assert (seen, worker.status) == ([], Status.READY)


async def test_a_worker_given_up_is_announced(registry, make_worker, run, eventually):
    worker = make_worker("a")
    registry.add(worker)
    failed = []
    run(on_failed=failed.append)
    await eventually(lambda: failed == [worker])
    assert worker.status is Status.FAILED


async def test_a_worker_removed_when_it_is_given_up_is_probed_no_more(registry, engines, make_worker, run, eventually):
    registry.add(make_worker("a"))
    registry.add(make_worker("b", failure_threshold=1_000_000))
    seen = run(on_failed=lambda worker: registry.remove(worker.id))
    await eventually(lambda: "a" not in registry.snapshot.by_id)
    before = len(engines.paths("http://a"))
    await eventually(lambda: seen.count(("b", False)) >= 50)
    assert len(engines.paths("http://a")) == before


async def test_probes_are_bounded_at_a_time(registry, engines, make_worker, run, eventually):
    waiting = 0
    peak = 0
    let_go = asyncio.Event()

    async def get(url, *, api_key, timeout_secs):
        nonlocal waiting, peak
        waiting += 1
        peak = max(peak, waiting)
        engines.calls.append((url, api_key))
        await let_go.wait()
        waiting -= 1
        return type("Fetched", (), {"status": 200})

    engines.get = get
    for n in range(MAX_PROBES + 20):
        registry.add(make_worker(f"w{n}"))
    seen = run(SELDOM)
    await eventually(lambda: waiting == MAX_PROBES)
    let_go.set()
    await eventually(lambda: len(seen) == MAX_PROBES + 20)
    assert peak == MAX_PROBES


async def test_it_can_run_again_after_a_crash(registry, engines, make_worker, eventually):
    worker = make_worker("a")
    registry.add(worker)

    def crash():
        raise RuntimeError("boom")

    engines.answers["http://a/health"] = crash
    prober = Prober(registry, engines, OFTEN)
    with pytest.raises(ExceptionGroup):
        await prober.run()
    engines.answers["http://a/health"] = 503
    watch = Watch(prober)
    await eventually(lambda: worker.status is Status.NOT_READY)
    await watch.stop()
