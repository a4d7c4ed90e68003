"""What engines report of their load, from their own routes to what it does and where it shows."""

import pytest

from support.bodies import CHAT, chat
from support.waiting import until

# An answer of this engine takes as long as the test wants it to: far longer than the test.
SLOW = {"tokens_per_second": 0.001}
OFTEN = {"load_monitor_interval": 0.02}


async def reported(gateway, *engines):
    """Wait until the gateway has a report of each of these engines."""
    await until(lambda: all(gateway.worker(engine).report for engine in engines), "load reports")


async def test_engines_of_every_kind_are_polled_and_shown(stage):
    sglang = await stage.engine(engine="sglang", dp_size=2)
    vllm = await stage.engine(engine="vllm")
    gateway = await stage.gateway(sglang, vllm)
    await reported(gateway, sglang, vllm)
    view = (await gateway.get("/loads")).json
    assert {(row["worker"], row["dp_rank"]) for row in view["loads"]} == {
        (sglang.url, 0),
        (sglang.url, 1),
        (vllm.url, 0),
    }
    assert view["aggregate"]["total_reqs"] == 0
    rows = (await gateway.get("/workers")).json["workers"]
    assert {row["url"]: row["engine_load"]["dp_rank_count"] for row in rows} == {sglang.url: 2, vllm.url: 1}
    scrape = await gateway.scrape()
    assert len(scrape.matching("smg_engine_token_usage", model="m")) == 3


async def test_a_fleet_whose_engines_are_full_sheds_until_one_is_not(stage):
    engine = await stage.engine(max_running_requests=1, **SLOW)
    gateway = await stage.gateway(engine, worker_overload_waiting_requests=1, **OFTEN)
    clients = [await gateway.send("POST", CHAT, chat("long")) for _ in range(2)]
    await until(lambda: gateway.worker(engine).overloaded, "overload")
    answer = await gateway.chat(chat("more"))
    assert (answer.status, answer.code) == (503, "worker_overload_protection_shed")
    assert answer.headers["retry-after"] == "1"
    scrape = await gateway.scrape()
    assert scrape.value("smg_worker_overload_shed_total", stage="selection") == 1
    assert scrape.value("smg_workers_overloaded", model="m") == 1
    assert scrape.value("smg_worker_retries_total") == 0
    for client in clients:
        await client.closed()
    await until(lambda: not gateway.worker(engine).overloaded, "recovery")


async def test_an_engine_that_stops_reporting_is_not_overloaded(stage):
    full = await stage.engine(max_running_requests=1, **SLOW)
    gateway = await stage.gateway(full, worker_overload_protection=True, worker_overload_waiting_requests=1, **OFTEN)
    clients = [await gateway.send("POST", CHAT, chat("long")) for _ in range(2)]
    await until(lambda: gateway.worker(full).overloaded, "overload")
    worker = gateway.worker(full)
    await full.stop()
    await until(lambda: not worker.overloaded and worker.report is None, "the flag's end")
    for client in clients:
        await client.closed()


async def test_engines_are_not_polled_where_nobody_needs_it(stage):
    engine = await stage.engine()
    gateway = await stage.gateway(engine, policy="round_robin", disable_load_monitoring=True, **OFTEN)
    assert (await gateway.chat(chat())).status == 200
    assert gateway.worker(engine).report is None
    other = await stage.gateway(engine, policy="least_load", disable_load_monitoring=True, **OFTEN)
    await reported(other, engine)


async def test_every_cache_is_flushed(stage):
    engines = [await stage.engine(engine="sglang"), await stage.engine(engine="vllm")]
    gateway = await stage.gateway(*engines)
    answer = await gateway.post("/flush_cache", b"")
    assert (answer.status, answer.json["workers_flushed"]) == (200, 2)


async def test_the_engines_metrics_come_in_one_text(stage):
    engines = [await stage.engine(engine="vllm") for _ in range(2)]
    gateway = await stage.gateway(*engines)
    text = (await gateway.get("/engine_metrics")).body.decode()
    assert text.count("# TYPE vllm:num_requests_running gauge") == 1
    assert [f'worker_addr="{engine.url}"' in text for engine in engines] == [True, True]


@pytest.mark.parametrize("path", ["/get_loads", "/flush_cache", "/start_profile", "/stop_profile"])
async def test_the_fleet_s_admin_routes_want_the_key(stage, path):
    gateway = await stage.gateway(api_key="secret")
    method = "GET" if path == "/get_loads" else "POST"
    assert (await gateway.ask(method, path)).status == 401
    assert (await gateway.get("/loads")).status == 200
    assert (await gateway.get("/engine_metrics")).status == 500


async def test_a_worker_that_stays_unhealthy_is_removed_on_demand(stage):
    engine = await stage.engine()
    gateway = await stage.gateway(
        engine,
        remove_unhealthy_workers=True,
        health_check_interval_secs=0.01,
        health_failure_threshold=1,
    )
    await engine.stop()
    await until(lambda: not gateway.workers, "the worker's removal")
