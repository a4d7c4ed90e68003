"""Probes, the status they move a worker to, and what that means for traffic."""

from smg.sim.faults import Fault
from support.bodies import CHAT, chat
from support.raw_engine import answers
from support.waiting import until

QUICK = {"health_check_interval_secs": 0.02, "health_failure_threshold": 2, "health_success_threshold": 2}


async def status_of(gateway, engine):
    rows = (await gateway.get("/workers")).json["workers"]
    return next(row["status"] for row in rows if row["url"] == engine.url)


def probes(engine):
    """How often an engine was asked how it is."""
    return sum(call.path == "/health" for call in engine.asked)


async def moved(gateway, engine, status):
    """Wait until the worker has a status."""
    await until(lambda: gateway.worker(engine).status.value == status, f"status {status}")


async def test_a_worker_that_falls_ill_gets_no_traffic_until_it_is_well(stage):
    ill, well = await stage.raw_engine(answers()), await stage.raw_engine(answers())
    gateway = await stage.gateway(ill, well, **QUICK)
    ill.well = False
    await moved(gateway, ill, "not_ready")
    before = len(ill.calls)
    for _ in range(6):
        assert (await gateway.chat(chat())).worker == well.url
    assert len(ill.calls) == before
    readiness = (await gateway.get("/readiness")).json
    assert readiness == {"status": "ready", "healthy_workers": 1, "total_workers": 2}
    assert (await gateway.scrape()).value("smg_worker_health", worker=ill.url) == 0
    ill.well = True
    await moved(gateway, ill, "ready")
    assert {(await gateway.chat(chat())).worker for _ in range(4)} == {ill.url, well.url}


async def test_a_worker_that_stays_ill_is_given_up_and_can_still_come_back(stage):
    engine = await stage.raw_engine(answers())
    gateway = await stage.gateway(engine, **QUICK)
    engine.well = False
    await moved(gateway, engine, "failed")
    assert await status_of(gateway, engine) == "failed"
    answer = await gateway.get("/readiness")
    assert (answer.status, answer.json["reason"]) == (503, "insufficient healthy workers")
    assert (await gateway.chat(chat())).code == "no_available_workers"
    assert (await gateway.get("/v1/models")).status == 200  # still a model of this fleet
    engine.well = True
    await moved(gateway, engine, "ready")
    assert (await gateway.chat(chat())).status == 200


async def test_requests_under_way_outlive_a_worker_s_illness(stage):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine, **QUICK)
    client = await gateway.send("POST", CHAT, chat())
    call = await engine.call()
    engine.well = False
    await moved(gateway, engine, "not_ready")
    await call.answer()
    assert (await client.answer()).status == 200


async def test_probes_go_to_the_configured_path_with_the_worker_s_key(stage):
    engine = await stage.raw_engine(answers())
    gateway = await stage.gateway(health_check_endpoint="/healthz", **QUICK)
    await gateway.post("/workers", {"url": engine.url, "api_key": "engine-key"})
    await until(lambda: any(call.path == "/healthz" for call in engine.asked))
    probe = next(call for call in engine.asked if call.path == "/healthz")
    assert probe.headers["authorization"] == "Bearer engine-key"
    # While it registers an engine is asked on its own route, and without a key.
    first = next(call for call in engine.asked if call.path == "/health")
    assert "authorization" not in first.headers


async def test_a_worker_whose_probes_are_turned_off_counts_as_ready(stage):
    engine = await stage.raw_engine(answers())
    gateway = await stage.gateway(engine, **QUICK)
    engine.well = False
    await moved(gateway, engine, "not_ready")
    body = {"health": {"disable_health_check": True}}
    assert (await gateway.ask("PATCH", f"/workers/{gateway.worker(engine).id}", body)).status == 202
    assert await status_of(gateway, engine) == "ready"
    assert (await gateway.chat(chat())).status == 200


async def test_without_probes_only_the_breaker_takes_a_worker_out(stage):
    engine = await stage.raw_engine(answers())
    gateway = await stage.gateway(engine, disable_health_check=True, **QUICK)
    engine.well = False
    asked = probes(engine)
    for _ in range(10):
        assert (await gateway.chat(chat())).status == 200
    assert probes(engine) == asked


async def test_a_probe_that_hangs_is_a_bad_one(stage):
    engine = await stage.engine()
    gateway = await stage.gateway(engine, health_check_timeout_secs=0.05, **QUICK)
    engine.faults.add(Fault("/health", "hang"))
    await moved(gateway, engine, "not_ready")
    engine.faults.clear()
    await moved(gateway, engine, "ready")
