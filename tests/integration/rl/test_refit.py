"""A trainer's round over simulated engines: find them, pause, load weights, resume."""

import asyncio

import pytest

from support.bodies import GENERATE
from support.waiting import until

PAUSE = ("pause_generation", {"mode": "in_place"})
REFIT = ("update_weights_from_disk", {"model_path": "/ckpt/42", "weight_version": "42"})
RESUME = ("continue_generation", {})


async def test_engines_are_found_with_what_they_can_do(stage):
    sglang = await stage.engine(weight_version="7")
    vllm = await stage.engine(engine="vllm")
    trainer = await stage.plane(sglang, vllm)
    rows = await trainer.rows()
    assert list(rows) == sorted([sglang.url, vllm.url])
    one, other = rows[sglang.url], rows[vllm.url]
    assert (one["engine"], one["tp_size"], one["weight_version"], one["health"]) == ("sglang", 1, "7", "ready")
    assert (one["capabilities"]["pause_modes"], one["capabilities"]["source"]) == (
        ["abort", "retract", "in_place"],
        "static",
    )
    assert (other["engine"], other["tp_size"], other["weight_version"]) == ("vllm", None, None)
    assert other["capabilities"]["update_from"] == ["disk", "distributed"]


async def test_a_refit_is_three_fan_outs(stage):
    engines = await stage.engines(3)
    vllm = await stage.engine(engine="vllm", model="other")
    trainer = await stage.plane(*engines, vllm)
    for path, body in (PAUSE, REFIT, RESUME):
        answer = await trainer.fanout(path, "engine=sglang, health=ready", body)
        assert (answer.status, answer.json["total"], answer.json["failed"]) == (200, 3, [])
        assert {result["url"] for result in answer.json["results"].values()} == {engine.url for engine in engines}
    generated = await trainer.gateway.post(GENERATE, {"model": "m", "text": "hello"})
    for engine in engines:
        told = await trainer.call(engine, "weight_version", method="GET")
        assert told.json["body"]["weight_version"] == "42"
    assert generated.status == 200
    assert {row["weight_version"] for row in (await trainer.rows()).values()} == {"default", None}


async def test_an_engine_that_refuses_is_among_results_and_failures(stage):
    good, bad = await stage.engines(2)
    trainer = await stage.plane(good, bad)
    first = await trainer.call(bad, "pause_generation")  # SGLang wants a body
    assert (first.status, first.json["status"]) == (400, 400)
    answer = await trainer.fanout("update_weights_from_disk", "engine=sglang", {"weight_version": "1"})
    assert (answer.status, answer.json["succeeded"]) == (207, 0)
    assert [row["error"] for row in answer.json["failed"]] == ["upstream_error"] * 2
    assert len(answer.json["results"]) == 2


@pytest.mark.parametrize(("engine", "path"), [("sglang", "flush_cache"), ("vllm", "reset_prefix_cache")])
async def test_each_engine_is_called_by_its_own_routes(stage, engine, path):
    target = await stage.engine(engine=engine)
    trainer = await stage.plane(target)
    assert (await trainer.call(target, path)).status == 200
    assert (await trainer.call(target, "no/such/route")).status == 404


async def test_the_gateways_own_load_is_none_of_a_pauses_business(stage):
    """A paused engine holds its requests, and the way to resume it stays free."""
    engine = await stage.engine()
    trainer = await stage.plane(engine)
    await trainer.fanout(*_with_selector(PAUSE))
    asking = asyncio.ensure_future(trainer.gateway.post(GENERATE, {"model": "m", "text": "hello"}))
    rows = await trainer.rows()
    assert rows[engine.url]["health"] == "ready"
    assert not asking.done()
    await trainer.fanout(*_with_selector(RESUME))
    assert (await asking).status == 200


def _with_selector(operation):
    path, body = operation
    return path, "engine=sglang", body


async def test_a_control_call_leaves_its_mark_in_metrics_and_log(stage):
    engine = await stage.engine()
    trainer = await stage.plane(engine)
    await trainer.call(engine, "flush_cache", {})
    scrape = await trainer.gateway.scrape()
    assert scrape.labels("smg_rl_control_calls_total") == [{"op": "flush_cache", "result": "ok"}]
    await until(lambda: " smg_rl: rl.proxy " in trainer.gateway.log())
    (line,) = [line for line in trainer.gateway.log().splitlines() if " smg_rl: rl.proxy " in line]
    assert ' method="POST" path="flush_cache" status=200 latency_ms=' in line
    (line,) = trainer.gateway.access_lines("/engine/flush_cache")
    assert f'worker="{engine.url}"' in line
