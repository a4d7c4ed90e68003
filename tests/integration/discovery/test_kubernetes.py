"""What a source makes of a cluster and its troubles: lists and watches over real sockets, a fleet that only notes."""

import asyncio

import pytest

from smg.services.discovery.bell import Bell
from smg.services.discovery.informer import Pacing
from smg.services.discovery.kubernetes import KubernetesOptions, KubernetesSource
from smg.telemetry.metrics import Metrics
from support.waiting import until

NEVER_SECS = 3600.0
QUICK = {"first_backoff_secs": 0.005, "max_backoff_secs": 0.02, "least_pause_secs": 0.005}


class Fleet:
    """Notes the passes: which workers were desired."""

    source = "kubernetes"

    def __init__(self):
        self.passes = []

    def apply(self, desired):
        self.passes.append(sorted((one.key, one.spec.worker_type) for one in desired))

    @property
    def keys(self):
        """The workers of the last pass."""
        return [key for key, _ in self.passes[-1]] if self.passes else None


class Running:
    """A source that runs."""

    def __init__(self, selectors=None, *, coalesce_secs=0.02, **pacing):
        self.fleet = Fleet()
        self.metrics = Metrics()
        selectors = selectors or {"regular": "app=engine"}
        options = KubernetesOptions(
            selectors, "models", pacing=Pacing(**{"resync_secs": NEVER_SECS, **QUICK, **pacing})
        )
        self.source = KubernetesSource(options, self.fleet, Bell(coalesce_secs), self.metrics)
        self.task = asyncio.create_task(self.source.run())

    async def holds(self, *keys):
        await until(lambda: self.fleet.keys == list(keys), f"{keys} instead of {self.fleet.keys}")

    def errors(self, reason):
        return self.metrics.discovery_snapshot_errors.labels("kubernetes", reason).value


@pytest.fixture
async def run(kubeconfig):
    running = []

    async def start(*args, **options):
        running.append(Running(*args, **options))
        return running[-1]

    yield start
    for source in running:
        source.task.cancel()
    await asyncio.gather(*(source.task for source in running), return_exceptions=True)


async def test_pods_come_change_and_go(api, run, pod):
    api.put(pod("a"))
    source = await run()
    await source.holds("uid-a:80")
    api.put(pod("b"))
    await source.holds("uid-a:80", "uid-b:80")
    api.put(pod("a", ready=False))
    await source.holds("uid-b:80")
    api.delete("b")
    await source.holds()
    assert len(api.lists) == 1


async def test_a_replaced_pod_is_another_worker(api, run, pod):
    api.put(pod("a", uid="first"))
    source = await run()
    await source.holds("first:80")
    api.put(pod("a", uid="second"))
    await source.holds("second:80")


async def test_a_pod_that_terminates_is_no_worker(api, run, pod):
    api.put(pod("a"))
    source = await run()
    await source.holds("uid-a:80")
    api.put(pod("a", deletionTimestamp="2026-01-01T00:00:00Z"))
    await source.holds()


async def test_a_pod_that_loses_the_label_is_no_worker(api, run, pod):
    api.put(pod("a"))
    source = await run()
    await source.holds("uid-a:80")
    for watch in api.watches:  # this is how the server tells those whose selector does not fit any more
        watch.send("DELETED", api.pods[("models", "a")])
    await source.holds()


async def test_readiness_that_flaps_is_not_seen(api, run, pod):
    api.put(pod("a"))
    source = await run(coalesce_secs=0.2)
    await source.holds("uid-a:80")
    for ready in [False, True] * 20:
        api.put(pod("a", ready=ready))
    api.put(pod("b"))
    await source.holds("uid-a:80", "uid-b:80")
    assert [] not in source.fleet.passes


async def test_a_storm_of_events_makes_few_passes(api, run, pod):
    source = await run(coalesce_secs=0.1)
    await source.holds()
    await until(lambda: api.watches, "a watch")
    for round_ in range(20):
        for number in range(100):
            api.put(pod(f"p{number}", uid=f"{number:03}-{round_}"))
        await asyncio.sleep(0)
    await source.holds(*[f"{number:03}-19:80" for number in range(100)])
    assert len(source.fleet.passes) < 20


async def test_changes_that_mean_nothing_make_no_pass(api, run, pod):
    api.put(pod("a"))
    source = await run()
    await source.holds("uid-a:80")
    await until(lambda: api.watches, "a watch")
    for number in range(10):
        api.put(pod("a", annotations={"seen": str(number)}))
    api.put(pod("b"))
    await source.holds("uid-a:80", "uid-b:80")
    assert len(source.fleet.passes) == 2


async def test_a_watch_that_is_cut_is_made_up_for_by_a_list(api, run, pod):
    api.put(pod("a"))
    source = await run()
    await source.holds("uid-a:80")
    await until(lambda: api.watches, "a watch")
    api.cut_watches()
    api.delete("a", unseen=True)
    api.put(pod("b"), unseen=True)
    await source.holds("uid-b:80")


async def test_a_watch_that_the_server_ends_goes_on_from_the_last_bookmark(api, run, pod):
    api.put(pod("a"))
    source = await run()
    await source.holds("uid-a:80")
    await until(lambda: api.watches, "a watch")
    api.version += 10
    api.bookmark()
    api.end_watches()
    await until(lambda: len(api.watched) == 2 and api.watches, "another watch")
    api.put(pod("b"))
    await source.holds("uid-a:80", "uid-b:80")
    assert [query["resourceVersion"] for query in api.watched] == ["101", "112"]
    assert len(api.lists) == 1


async def test_when_the_past_is_gone_everything_is_listed_anew(api, run, pod):
    api.put(pod("a"))
    source = await run()
    await source.holds("uid-a:80")
    await until(lambda: api.watches, "a watch")
    api.delete("a", unseen=True)
    api.put(pod("b"), unseen=True)
    api.expire()
    await source.holds("uid-b:80")
    assert len(api.lists) == 2


async def test_a_past_that_went_between_two_watches_is_noticed(api, run, pod):
    api.put(pod("a"))
    source = await run()
    await source.holds("uid-a:80")
    await until(lambda: api.watches, "a watch")
    api.delete("a", unseen=True)
    api.compact()
    api.end_watches()
    await source.holds()


async def test_a_missed_deletion_is_found_by_the_full_pass(api, run, pod):
    api.put(pod("a"))
    source = await run(resync_secs=0.1)
    await source.holds("uid-a:80")
    await until(lambda: api.watches, "a watch")
    api.delete("a", unseen=True)
    await source.holds()
    await until(lambda: len(api.lists) > 3, "more lists")


async def test_an_api_server_that_refuses_is_asked_again_and_the_workers_stay(api, run, pod):
    api.put(pod("a"))
    source = await run()
    await source.holds("uid-a:80")
    await until(lambda: api.watches, "a watch")
    api.refuse(500, 429, 403, 401, 401, 503)
    api.cut_watches()
    await until(lambda: source.errors("unreadable") >= 5 and api.watches, "the server to answer again")
    assert source.fleet.keys == ["uid-a:80"]
    api.put(pod("b"))
    await source.holds("uid-a:80", "uid-b:80")


async def test_an_api_server_that_is_silent_at_first_is_waited_for(api, run, pod):
    api.put(pod("a"))
    api.refuse(503, 503)
    source = await run()
    await source.holds("uid-a:80")
    assert source.fleet.passes == [[("uid-a:80", "regular")]]


async def test_each_role_has_its_pods_and_nothing_is_decided_before_all_are_known(api, run, pod):
    api.put(pod("p", labels={"role": "prefill"}, annotations={"sglang.ai/bootstrap-port": "9"}))
    api.put(pod("d", labels={"role": "decode"}))
    api.put(pod("both", labels={"role": "prefill", "app": "engine"}))
    api.put(pod("none", labels={"role": "router"}))
    source = await run({"prefill": "role=prefill", "decode": "role=decode", "regular": "app=engine"})
    await until(lambda: source.fleet.passes, "a pass")
    assert {query["labelSelector"] for query in api.lists} == {"role=prefill", "role=decode", "app=engine"}
    assert set(source.fleet.passes[0]) == {
        ("uid-p:80", "prefill"),
        ("uid-d:80", "decode"),
        ("uid-both:80", "prefill"),
        ("uid-both:80", "regular"),
    }


async def test_what_is_wrong_with_a_pod_is_logged_and_does_not_stop_the_others(api, run, pod, caplog):
    api.put(pod("a", annotations={"smg.ai/worker-ports": "many"}))
    api.put(pod("b"))
    source = await run()
    await source.holds("uid-a:80", "uid-b:80")
    complaints = [record.fields for record in caplog.records if record.message == "pod is not as it should be"]
    assert [(fields["pod"], "worker-ports" in fields["problem"]) for fields in complaints] == [("models/a", True)]


async def test_without_a_way_to_a_cluster_it_gives_up_and_says_so(api, run, monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    source = await run()
    async with asyncio.timeout(30):
        await source.task
    assert source.fleet.passes == []
    assert [record.message for record in caplog.records] == ["no workers are discovered: there is no way to a cluster"]
