import asyncio
import json
from contextlib import suppress

import pytest

from smg.fleet.load import OverloadOptions, Thresholds
from smg.fleet.registry import Registry
from smg.fleet.spec import OverloadSpec, WorkerPatch, WorkerSpec
from smg.fleet.worker import Status
from smg.services import load_monitor
from smg.services.load_monitor import MAX_POLLS, ROUNDS_OFF, LoadMonitor

LOADS = "/loads?model=m"
V1_LOADS = "/v1/loads?include=core,disagg,queues,memory"
UNPROTECTED = OverloadOptions()
PROTECTED = OverloadOptions(enabled=True, thresholds=Thresholds(4, 0.9))


def rows(*waiting, **members):
    """A load report: so many requests waiting at each rank."""
    loads = [
        {"dp_rank": rank, "num_running_reqs": 1, "num_waiting_reqs": count, **members}
        for rank, count in enumerate(waiting)
    ]
    return 200, json.dumps({"loads": loads}).encode()


class Monitor:
    """A running monitor. Rounds come when a test asks for one; `flags` counts the moves of overload flags."""

    def __init__(self, registry, engines, overload=UNPROTECTED, **options):
        self.flags = 0
        self.monitor = LoadMonitor(
            registry, engines, overload, on_flag=self._moved, now=lambda: 1700.0, **{"interval_secs": 1e6, **options}
        )
        self.task = asyncio.get_running_loop().create_task(self.monitor.run())

    def _moved(self):
        self.flags += 1

    async def round(self):
        """Poll everybody whose turn it is, and wait for what comes of it."""
        await self.idle()
        async with asyncio.TaskGroup() as polls:
            await self.monitor._start(polls, self.monitor._round())
        await self.idle()

    async def idle(self):
        """Wait until nothing is asked and nobody is to be asked, for some turns of the loop."""
        quiet = 0
        for _ in range(10_000):
            await asyncio.sleep(0)
            quiet = 0 if self._is_busy() else quiet + 1
            if quiet == 10:
                return
        raise AssertionError("it never came to rest")

    def _is_busy(self):
        return self.monitor._fresh or any(watch.polling for watch in self.monitor._watches.values())

    async def stop(self):
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


@pytest.fixture
async def start(registry, engines):
    running = []

    def begin(*args, **options):
        running.append(Monitor(registry, engines, *args, **options))
        return running[-1]

    yield begin
    for monitor in running:
        await monitor.stop()


async def test_a_report_is_noted_on_its_worker(registry, engines, make_worker, start):
    worker = make_worker("a", key="secret")
    registry.add(worker)
    engines.answers[f"http://a{LOADS}"] = rows(2, 3, token_usage=0.5)
    await start().idle()
    assert (worker.report.waiting_requests, worker.report.token_usage, worker.report.received_at) == (5, 0.5, 1700.0)
    assert engines.calls == [(f"http://a{LOADS}", "secret")]


async def test_a_worker_that_becomes_ready_is_asked_at_once(registry, engines, make_worker, start):
    engines.answers[f"http://a{LOADS}"] = rows(2)
    monitor = start()
    await monitor.idle()
    worker = make_worker("a", status=Status.PENDING)
    registry.add(worker)
    await monitor.idle()
    assert engines.calls == []
    registry.set_status("a", Status.READY, worker.revision)
    await monitor.idle()
    assert worker.report.waiting_requests == 2


async def test_every_round_puts_a_new_report_in_place_and_starts_counting_anew(registry, engines, make_worker, start):
    worker = make_worker("a")
    registry.add(worker)
    engines.answers[f"http://a{LOADS}"] = rows(2)
    monitor = start()
    await monitor.idle()
    first, worker.dispatched_tokens = worker.report, 5000
    await monitor.round()
    assert worker.report == first
    assert worker.report is not first
    assert worker.dispatched_tokens == 0


async def test_rounds_come_by_themselves(registry, engines, make_worker, start, eventually):
    registry.add(make_worker("a"))
    engines.answers[f"http://a{LOADS}"] = rows(2)
    start(interval_secs=0.0)
    await eventually(lambda: len(engines.calls) >= 5)


async def test_the_route_that_answered_is_remembered(registry, engines, make_worker, start):
    registry.add(make_worker("a"))
    engines.answers[f"http://a{V1_LOADS}"] = rows(2)
    monitor = start()
    await monitor.round()
    assert engines.paths("http://a") == [LOADS, V1_LOADS, V1_LOADS]


async def test_metrics_are_read_where_there_is_no_load_route(registry, engines, make_worker, start):
    worker = make_worker("a", runtime="vllm")
    registry.add(worker)
    engines.answers["http://a/metrics"] = (200, b'vllm:kv_cache_usage_perc{engine="0"} 0.25\n')
    await start().idle()
    assert worker.report.token_usage == 0.25


@pytest.mark.parametrize(
    "answer",
    [
        "down",
        "silent",
        500,
        401,
        (200, b"{"),
        (200, b"[]"),
        (200, b"\xff"),
        (200, b"[" * 100_000),
        rows(10**30),
        rows("x"),
    ],
)
async def test_a_poll_that_fails_takes_report_and_flag_away(registry, engines, make_worker, start, answer):
    worker = make_worker("a")
    registry.add(worker)
    engines.answers[f"http://a{LOADS}"] = rows(9)
    monitor = start(PROTECTED)
    await monitor.idle()
    assert worker.overloaded
    engines.answers[f"http://a{LOADS}"] = answer
    await monitor.round()
    assert worker.report is None
    assert not worker.overloaded
    assert monitor.flags == 2


async def test_a_fault_of_the_reader_costs_nobody_else_a_poll(registry, engines, make_worker, start, monkeypatch):
    good, bad = make_worker("good"), make_worker("bad", runtime="vllm")
    registry.add(bad)
    registry.add(good)
    engines.answers[f"http://good{LOADS}"] = rows(1)
    engines.answers[f"http://bad{LOADS}"] = rows(1)
    real = load_monitor.read_load

    def faulty(gauges, *rest):
        if gauges[0].running.startswith("vllm"):
            raise RuntimeError("a fault of ours")
        return real(gauges, *rest)

    monkeypatch.setattr(load_monitor, "read_load", faulty)
    await start().idle()
    assert bad.report is None
    assert good.report is not None


async def test_an_engine_whose_poll_a_crash_took_away_is_asked_again(registry, engines, make_worker, eventually):
    asked, crashing = make_worker("asked"), make_worker("crashing")
    registry.add(asked)
    registry.add(crashing)
    engines.answers[f"http://asked{LOADS}"] = rows(1)

    def needed(worker):
        if worker is crashing:
            raise RuntimeError("a fault of ours")
        return True

    monitor = Monitor(registry, engines, needed=needed)
    await eventually(monitor.task.done)
    assert monitor.task.exception() is not None
    assert engines.calls == []
    registry.remove("crashing")
    monitor.task = asyncio.get_running_loop().create_task(monitor.monitor.run())
    await eventually(lambda: asked.report is not None)
    await monitor.stop()


async def test_an_engine_without_any_load_route_is_left_alone_for_some_rounds(registry, engines, make_worker, start):
    registry.add(make_worker("a"))
    monitor = start()
    await monitor.idle()
    asked = len(engines.calls)
    for _ in range(ROUNDS_OFF):
        await monitor.round()
    assert len(engines.calls) == asked
    await monitor.round()
    assert len(engines.calls) == 2 * asked


@pytest.mark.parametrize("status", [Status.NOT_READY, Status.DRAINING])
async def test_a_worker_that_is_no_longer_ready_has_no_report(registry, engines, make_worker, start, status):
    worker = make_worker("a")
    registry.add(worker)
    engines.answers[f"http://a{LOADS}"] = rows(9)
    monitor = start(PROTECTED)
    await monitor.idle()
    registry.set_status("a", status, worker.revision)
    assert worker.report is None
    assert not worker.overloaded
    await monitor.round()
    assert len(engines.calls) == 1


async def test_an_answer_that_comes_after_its_worker_left_changes_nothing(registry, engines, make_worker, start):
    worker = make_worker("a")
    registry.add(worker)

    def leaves():
        registry.set_status("a", Status.NOT_READY, worker.revision)
        return rows(9)

    engines.answers[f"http://a{LOADS}"] = leaves
    await start(PROTECTED).idle()
    assert worker.report is None
    assert not worker.overloaded


async def test_an_answer_about_what_a_worker_was_is_asked_for_again(registry, engines, make_worker, start):
    worker = make_worker("a")
    registry.add(worker)
    answers = iter([rows(1), rows(2)])

    def changes():
        if worker.revision == 0:
            registry.patch("a", WorkerPatch(api_key="new"))
        return next(answers)

    engines.answers[f"http://a{LOADS}"] = changes
    await start().idle()
    assert engines.calls[-1] == (f"http://a{LOADS}", "new")
    assert worker.report.waiting_requests == 2


async def test_a_changed_registration_is_asked_from_the_beginning(registry, engines, make_worker, start):
    registry.add(make_worker("a"))
    engines.answers[f"http://a{V1_LOADS}"] = rows(1)
    monitor = start()
    await monitor.idle()
    registry.patch("a", WorkerPatch(priority=1))
    await monitor.idle()
    assert engines.paths("http://a") == [LOADS, V1_LOADS] * 2


async def test_a_removed_worker_is_not_asked_any_more(registry, engines, make_worker, start):
    registry.add(make_worker("a"))
    engines.answers[f"http://a{LOADS}"] = rows(1)
    monitor = start()
    await monitor.idle()
    registry.remove("a")
    await monitor.round()
    assert len(engines.calls) == 1
    assert not monitor.monitor._watches


@pytest.mark.parametrize("fields", [{"runtime": "external"}, {"connection_mode": "grpc"}])
async def test_workers_that_have_no_such_routes_are_not_asked(registry, engines, make_worker, start, fields):
    worker = make_worker("a")
    for name, value in fields.items():
        setattr(worker, name, value)
    registry.add(worker)
    await start().idle()
    assert engines.calls == []


async def test_the_ranks_of_one_engine_share_a_poll(registry, engines, make_worker, start):
    ranks = [make_worker("a") for _ in range(3)]
    for rank, worker in enumerate(ranks):
        worker.id, worker.url, worker.dp_rank = str(rank), f"http://a@{rank}", rank
        registry.add(worker)
    engines.answers[f"http://a{LOADS}"] = rows(0, 5)
    monitor = start(PROTECTED)
    await monitor.idle()
    assert len(engines.calls) == 1
    assert [worker.report and worker.report.waiting_requests for worker in ranks] == [0, 5, None]
    assert [worker.overloaded for worker in ranks] == [False, True, False]


async def test_no_more_engines_are_asked_at_once_than_the_bound(engines, make_worker, eventually, monkeypatch):
    monkeypatch.setattr(load_monitor, "PAUSE_SECS", 0)
    fleet = Registry()
    for number in range(2 * MAX_POLLS):
        fleet.add(make_worker(str(number)))
    asked, release = [], asyncio.Event()

    async def get(url, **_):
        asked.append(url)
        await release.wait()
        return await engines.get(url, timeout_secs=5)

    engines_that_hang = type("Hanging", (), {"get": staticmethod(get)})()
    monitor = Monitor(fleet, engines_that_hang)
    await eventually(lambda: len(asked) == MAX_POLLS)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(asked) == MAX_POLLS
    release.set()
    await eventually(lambda: len(asked) > MAX_POLLS)
    await monitor.stop()


async def test_an_engine_that_is_slow_is_not_asked_twice_at_once(make_worker, eventually):
    fleet, asked = Registry(), []
    fleet.add(make_worker("a"))

    class Hanging:
        async def get(self, url, **_):
            asked.append(url)
            await asyncio.Event().wait()

    monitor = Monitor(fleet, Hanging(), interval_secs=0.0)
    await eventually(lambda: asked)
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(asked) == 1
    await monitor.stop()


async def test_an_answer_for_a_removed_worker_is_not_taken_for_its_successor(registry, engines, make_worker, start):
    first, second = make_worker("a"), make_worker("a")
    second.id = "successor"
    registry.add(first)
    answers = iter([rows(9), rows(1)])

    def is_replaced():
        if "a" in registry.snapshot.by_id:
            registry.remove("a")
            registry.add(second)
        return next(answers)

    engines.answers[f"http://a{LOADS}"] = is_replaced
    monitor = start(PROTECTED)
    await monitor.idle()
    assert first.report is None
    assert second.report.waiting_requests == 1
    assert monitor.flags == 0


# --- overload protection


async def test_the_flag_follows_the_reports(registry, engines, make_worker, start):
    worker = make_worker("a")
    registry.add(worker)
    monitor = start(PROTECTED)
    for answer, overloaded in [(rows(4), True), (rows(3), False), (rows(0, token_usage=0.9), True), (rows(2, 2), True)]:
        engines.answers[f"http://a{LOADS}"] = answer
        await monitor.round()
        assert worker.overloaded is overloaded


async def test_without_protection_there_is_no_flag(registry, engines, make_worker, start):
    worker = make_worker("a")
    registry.add(worker)
    engines.answers[f"http://a{LOADS}"] = rows(500, token_usage=1.0)
    monitor = start()
    await monitor.idle()
    assert worker.report is not None
    assert not worker.overloaded
    assert monitor.flags == 0


async def test_a_worker_s_own_thresholds_count(registry, engines, make_worker, start):
    strict, lax = make_worker("strict"), make_worker("lax")
    strict.spec = WorkerSpec(url="http://strict", overload=OverloadSpec(waiting_requests=1))
    lax.spec = WorkerSpec(url="http://lax", overload=OverloadSpec(waiting_requests=100))
    for worker in (strict, lax):
        registry.add(worker)
        engines.answers[f"{worker.url}{LOADS}"] = rows(8)
    await start(PROTECTED).idle()
    assert (strict.overloaded, lax.overloaded) == (True, False)


async def test_engines_whose_load_nobody_needs_are_asked_only_for_protection(registry, engines, make_worker, start):
    plain, protected = make_worker("plain"), make_worker("protected")
    protected.spec = WorkerSpec(url="http://protected", overload=OverloadSpec(token_usage=0.5))
    for worker in (plain, protected):
        registry.add(worker)
        engines.answers[f"{worker.url}{LOADS}"] = rows(0)
    await start(needed=lambda _worker: False).idle()
    assert plain.report is None
    assert protected.report is not None


async def test_a_worker_that_is_not_protected_any_more_loses_its_flag(registry, engines, make_worker, start):
    worker = make_worker("a")
    worker.spec = WorkerSpec(url="http://a", overload=OverloadSpec(waiting_requests=1))
    registry.add(worker)
    engines.answers[f"http://a{LOADS}"] = rows(8)
    monitor = start(needed=lambda _worker: False)
    await monitor.idle()
    assert worker.overloaded
    registry.replace("a", worker.revision, make_worker("a"))
    assert not worker.overloaded
    assert worker.report is None
