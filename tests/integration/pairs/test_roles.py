"""How halves of engines come, are told apart, and decide whether a gateway is ready."""

import json

import pytest

from smg.fleet.worker import Status
from support.bodies import CHAT, chat
from support.raw_engine import answers
from support.waiting import until


async def readiness(gateway):
    answer = await gateway.get("/readiness")
    return answer.status, answer.json


async def rows(gateway):
    """The rows of the worker API by URL."""
    return {row["url"]: row for row in (await gateway.get("/workers")).json["workers"]}


async def test_without_any_leg_the_gateway_starts_and_waits_for_the_worker_api(stage, pairs):
    prefill, decode = await stage.engine(), await stage.engine()
    gateway = await pairs([], [])
    assert await readiness(gateway) == (503, {"status": "not ready", "reason": "insufficient healthy workers"})
    assert (await gateway.chat(chat())).code == "model_not_found"
    spec = {"url": prefill.url, "worker_type": "prefill", "bootstrap_port": 9001}
    assert (await gateway.post("/workers", spec)).status == 202
    await gateway.registered(1)
    assert (await readiness(gateway))[0] == 503
    answer = await gateway.chat(chat())
    assert (answer.status, answer.code) == (503, "no_available_workers")
    assert (await gateway.post("/workers", {"url": decode.url, "worker_type": "decode"})).status == 202
    await gateway.registered(2)
    assert await readiness(gateway) == (200, {"status": "ready", "healthy_workers": 2, "total_workers": 2})
    assert (await gateway.chat(chat(max_tokens=1))).worker == decode.url


async def test_whole_engines_take_no_part(stage, pairs):
    whole = await stage.engine()
    gateway = await pairs([], [])
    await gateway.post("/workers", {"url": whole.url})
    await gateway.registered(1)
    assert (await readiness(gateway))[0] == 503
    assert (await gateway.chat(chat())).code == "no_available_workers"
    assert whole.machine.seen[CHAT] == 0


@pytest.mark.parametrize("leg", ["prefill", "decode"])
async def test_a_leg_that_is_not_well_makes_the_gateway_unready(stage, pairs, leg):
    engines = {"prefill": await stage.engine(), "decode": await stage.engine()}
    gateway = await pairs(*engines.values())
    assert (await readiness(gateway))[0] == 200
    gateway.set_status(engines[leg], Status.NOT_READY)
    assert (await readiness(gateway))[0] == 503
    answer = await gateway.chat(chat(max_tokens=1))
    assert answer.code == "no_available_workers"
    assert f"no {leg} worker" in answer.json["error"]["message"]
    gateway.set_status(engines[leg], Status.READY)
    assert (await gateway.chat(chat(max_tokens=1))).status == 200


async def test_legs_of_which_none_fits_another_are_told(stage, pairs):
    prefill, decode = await stage.engine(), await stage.engine(engine="vllm")
    gateway = await pairs(prefill, decode)
    answer = await gateway.chat(chat())
    assert (answer.status, answer.code) == (503, "no_compatible_pd_pair")
    assert (await gateway.scrape()).value("smg_worker_retries_total") == 0
    by_url = await rows(gateway)
    assert by_url[prefill.url]["pd_pairing"] == "sglang/?/?"
    assert by_url[decode.url]["pd_pairing"] == "vllm/?/?"


async def test_a_label_can_make_a_pair_and_part_it_again(stage, pairs):
    prefill, decode = await stage.engine(), await stage.engine()
    gateway = await pairs(prefill, decode)
    ids = {engine: gateway.worker(engine).id for engine in (prefill, decode)}
    for engine, protocol in ((prefill, "a"), (decode, "b")):
        body = {"labels": {"pairing_protocol": protocol}}
        await gateway.ask("PATCH", f"/workers/{ids[engine]}", body)
    assert (await gateway.chat(chat())).code == "no_compatible_pd_pair"
    await gateway.ask("PATCH", f"/workers/{ids[decode]}", {"labels": {"pairing_protocol": "a"}})
    assert (await gateway.chat(chat(max_tokens=1))).status == 200


async def test_what_is_registered_of_transfers_is_shown(stage, pairs):
    engine = await stage.engine(engine="vllm")
    gateway = await pairs([], [])
    given = {"kv_connector": "NixlConnector", "kv_engine_id": "e1", "kv_role": "kv_producer"}
    await gateway.post("/workers", {"url": engine.url, "worker_type": "prefill", **given})
    await gateway.registered(1)
    row = (await rows(gateway))[engine.url]
    assert given.items() <= row.items()
    assert row["pd_pairing"] == "vllm/nixl/?"


async def test_only_legs_show_what_they_pair_by(stage):
    gateway = await stage.gateway(await stage.engine())
    (row,) = (await rows(gateway)).values()
    assert "pd_pairing" not in row


async def test_metrics_tell_the_legs_apart(stage, pairs):
    prefill, decode = await stage.engine(), await stage.engine()
    gateway = await pairs(prefill, decode, policy="random", prefill_policy="round_robin")
    await gateway.chat(chat(max_tokens=1))
    scrape = await gateway.scrape()
    assert scrape.value("smg_router_request_body_path_total", path="buffered", reason="pd") == 1
    for kind, policy in (("prefill", "round_robin"), ("decode", "random")):
        assert scrape.value("smg_worker_selection_total", worker_type=kind, policy=policy) == 1
        assert scrape.value("smg_worker_pool_size", worker_type=kind) == 1
    assert scrape.value("smg_router_requests_total", backend_type="pd", endpoint="chat") == 1
    assert scrape.value("smg_pd_prefill_duration_seconds_count", model="m", runtime="sglang") == 1


# --- information routes


async def test_information_comes_from_prefill(stage, pairs):
    prefill, decode = await stage.engine(context_tokens=1111), await stage.engine(context_tokens=2222)
    gateway = await pairs(prefill, decode)
    assert (await gateway.get("/get_server_info")).json["context_length"] == 1111
    assert prefill.machine.seen["/get_server_info"] == 1
    assert decode.machine.seen["/get_server_info"] == 0


async def test_both_legs_are_asked_to_generate(stage, pairs):
    prefill, decode = await stage.engine(), await stage.engine()
    gateway = await pairs(prefill, decode)
    assert (await gateway.get("/health_generate")).status == 200
    assert [engine.machine.seen["/health_generate"] for engine in (prefill, decode)] == [1, 1]
    gateway.set_status(decode, Status.NOT_READY)
    answer = await gateway.get("/health_generate")
    assert (answer.status, answer.code) == (503, "no_workers")


# --- discovery


async def test_legs_that_a_file_names_are_paired(stage, pairs, tmp_path):
    prefill, decode = await stage.raw_engine(answers()), await stage.raw_engine(answers())
    path = tmp_path / "workers.json"
    legs = [
        {"url": prefill.url, "worker_type": "prefill", "bootstrap_port": 9005},
        {"url": decode.url, "worker_type": "decode", "health": {"drain_settle_secs": 0}},
    ]
    path.write_text(json.dumps(legs))
    gateway = await pairs(
        [], [], discovery_provider="file", discovery_file=str(path), discovery_check_interval_secs=0.05
    )
    await gateway.registered(2)
    assert (await gateway.chat(chat())).worker == decode.url
    assert prefill.calls[0].json["bootstrap_port"] == 9005
    path.write_text(json.dumps(legs[:1]))
    await until(lambda: len(gateway.workers) == 1, "the decode worker's removal")
    assert (await readiness(gateway))[0] == 503
