"""A whole gateway that finds its workers by itself: in a file, and in a cluster."""

import json
import sys
from contextlib import AsyncExitStack

import pytest

from smg.errors import ConfigError
from support.bodies import chat
from support.stage import Stage
from support.waiting import until


@pytest.fixture
async def stage():
    async with AsyncExitStack() as stack:
        yield Stage(stack)


def urls(gateway):
    return sorted(worker.url for worker in gateway.workers if worker.status.value == "ready")


async def fleet(gateway, *engines):
    """Wait until exactly these engines are ready."""
    wanted = sorted(engine.url for engine in engines)
    await until(lambda: urls(gateway) == wanted, f"{wanted} instead of {urls(gateway)}")


class InFile:
    """A gateway that reads its workers from a file."""

    def __init__(self, stage, path):
        self.stage = stage
        self.path = path

    def write(self, *workers):
        self.path.write_text(json.dumps([getattr(worker, "url", worker) for worker in workers]))

    async def start(self, **settings):
        return await self.stage.gateway(
            discovery_provider="file",
            discovery_file=str(self.path),
            discovery_check_interval_secs=0.2,
            **settings,
        )


@pytest.fixture
def in_file(stage, tmp_path):
    return InFile(stage, tmp_path / "workers.yaml")


async def test_requests_reach_the_workers_of_a_file_as_it_changes(stage, in_file):
    one, two = await stage.engines(2)
    in_file.write(one)
    gateway = await in_file.start()
    await fleet(gateway, one)
    assert (await gateway.chat(chat())).worker == one.url
    in_file.write({"url": two.url, "health": {"drain_settle_secs": 0}, "labels": {"zone": "eu"}})
    await fleet(gateway, two)
    answer = await gateway.chat(chat())
    assert (answer.status, answer.worker) == (200, two.url)
    assert gateway.worker(two).labels["zone"] == "eu"


async def test_a_broken_file_leaves_the_workers_alone(stage, in_file):
    (one,) = await stage.engines(1)
    in_file.write(one)
    gateway = await in_file.start()
    await fleet(gateway, one)
    in_file.path.write_text("- {url: http://b, api_key: hush-hush\n")
    await until(lambda: "discovery file refused" in gateway.log(), "a complaint")
    assert urls(gateway) == [one.url]
    assert "line 2" in gateway.log()
    assert "hush-hush" not in gateway.log()
    scrape = await gateway.scrape()
    assert scrape.value("smg_discovery_snapshot_errors_total", source="file", reason="invalid") >= 1


async def test_discovered_workers_get_the_gateway_s_key(stage, in_file):
    one = await stage.engine(api_key="shared")
    two = await stage.engine(api_key="own")
    in_file.write(one, {"url": two.url, "api_key": "own"})
    gateway = await in_file.start(api_key="shared")
    await fleet(gateway, one, two)
    assert [gateway.worker(engine).api_key for engine in (one, two)] == ["shared", "own"]


async def test_a_worker_that_is_removed_by_hand_comes_back(stage, in_file):
    (one,) = await stage.engines(1)
    in_file.write({"url": one.url, "health": {"drain_settle_secs": 0}})
    gateway = await in_file.start()
    await fleet(gateway, one)
    first = gateway.worker(one).id
    await gateway.ask("DELETE", f"/workers/{first}")
    await fleet(gateway, one)
    assert gateway.worker(one).id != first


async def test_workers_of_the_worker_api_are_left_alone(stage, in_file):
    one, two = await stage.engines(2)
    in_file.write()
    gateway = await in_file.start()
    await until(lambda: "discovery file read" in gateway.log(), "the file to be read")
    await gateway.post("/workers", {"url": two.url})
    await fleet(gateway, two)
    in_file.write(one, two)
    await fleet(gateway, one, two)
    in_file.write(one)
    await until(lambda: gateway.log().count("discovery file read") == 3, "the file to be read again")
    await fleet(gateway, one, two)
    assert "belongs to another worker" in gateway.log()


async def test_worker_urls_are_not_registered_beside_discovery(stage, in_file):
    one, two = await stage.engines(2)
    in_file.write(one)
    gateway = await in_file.start(worker_urls=(two.url,))
    await fleet(gateway, one)
    assert "worker URLs are not registered" in gateway.log()


async def test_a_model_may_have_another_name_than_its_engine_gives_it(stage, in_file):
    one = await stage.engine(model="engine-name")
    in_file.write({"url": one.url, "model_id": "served"})
    gateway = await in_file.start()
    await fleet(gateway, one)
    answer = await gateway.chat(chat(model="served"))
    assert answer.status == 200
    await until(lambda: gateway.gateway.registry.snapshot.resolve("engine-name") == "served", "the alias")
    assert (await gateway.chat(chat(model="engine-name"))).status == 200


# --- in a cluster


@pytest.fixture
def in_cluster(stage, api, kubeconfig):
    async def start(**settings):
        return await stage.gateway(service_discovery=True, selector=("app=engine",), **settings)

    return start


def ports(*engines):
    return {"smg.ai/worker-ports": ",".join(str(engine.port) for engine in engines)}


async def test_requests_reach_the_pods_of_a_cluster_as_they_change(stage, api, in_cluster, pod):
    one, two, three = await stage.engines(3)
    api.put(pod("a", annotations=ports(one, two)))
    gateway = await in_cluster(service_discovery_port=1)
    await fleet(gateway, one, two)
    assert (await gateway.chat(chat())).status == 200
    assert gateway.worker(one).labels["smg.ai/pod-name"] == "a"
    api.put(pod("b", annotations=ports(three)))
    api.put(pod("a", annotations=ports(one, two), ready=False))
    await fleet(gateway, three)
    assert (await gateway.chat(chat())).worker == three.url
    scrape = await gateway.scrape()
    assert scrape.value("smg_discovery_registrations_total", source="kubernetes", result="success") == 3
    assert scrape.value("smg_discovery_deregistrations_total", source="kubernetes", reason="reconciled") == 2
    assert scrape.value("smg_discovery_workers_discovered", source="kubernetes") == 1
    assert scrape.value("smg_discovery_sync_duration_seconds_count", source="kubernetes") >= 2


async def test_a_replaced_pod_at_the_same_address_is_another_worker(stage, api, in_cluster, pod):
    (one,) = await stage.engines(1)
    api.put(pod("a", uid="first", annotations=ports(one)))
    gateway = await in_cluster()
    await fleet(gateway, one)
    first = gateway.worker(one)
    await gateway.ask("PATCH", f"/workers/{first.id}", {"health": {"drain_settle_secs": 0}})
    api.put(pod("a", uid="second", annotations=ports(one)))
    await until(lambda: first not in gateway.workers, "the end of the first")
    await fleet(gateway, one)
    assert gateway.worker(one).labels["smg.ai/pod-uid"] == "second"


async def test_pods_of_two_roles_make_a_gateway_of_pairs_ready(stage, api, kubeconfig, pod):
    one, two = await stage.engines(2)
    bootstrap = {"sglang.ai/bootstrap-port": "9001"}
    api.put(pod("p", labels={"role": "prefill"}, annotations={**ports(one), **bootstrap}))
    gateway = await stage.gateway(
        service_discovery=True,
        pd_disaggregation=True,
        prefill_selector=("role=prefill",),
        decode_selector=("role=decode",),
    )
    await fleet(gateway, one)
    assert (await gateway.get("/readiness")).status == 503
    api.put(pod("d", labels={"role": "decode"}, annotations=ports(two)))
    await fleet(gateway, one, two)
    assert (await gateway.get("/readiness")).status == 200
    assert (gateway.worker(one).worker_type, gateway.worker(one).bootstrap_port) == ("prefill", 9001)
    assert gateway.worker(two).worker_type == "decode"


async def test_without_a_cluster_the_gateway_runs_without_discovery(stage, in_cluster, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    (one,) = await stage.engines(1)
    gateway = await in_cluster()
    await until(lambda: "there is no way to a cluster" in gateway.log(), "the complaint")
    await gateway.post("/workers", {"url": one.url})
    await fleet(gateway, one)
    assert (await gateway.chat(chat())).status == 200


async def test_a_client_that_is_not_installed_stops_the_start(in_cluster, monkeypatch):
    for name in ("kubernetes", "cluster"):
        monkeypatch.delitem(sys.modules, f"smg.services.discovery.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "lightkube.config.client_adapter", None)
    with pytest.raises(ConfigError, match="smg-gateway\\[kubernetes\\]"):
        await in_cluster()
