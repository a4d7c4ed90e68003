"""Data-parallel ranks as workers of their own, alone and as legs."""

import pytest

from support.bodies import CHAT, chat
from support.raw_engine import answers, resets
from support.waiting import until


async def ranked(stage, *script, ranks):
    """An engine of SGLang's kind with so many ranks, whose requests can be read."""
    engine = await stage.raw_engine(*script)
    about = engine._about

    async def tell(call):
        if call.path == "/server_info":
            engine.asked.append(call)
            return await call.answer(200, {"dp_size": ranks, "served_model_name": "m"})
        return await about(call)

    engine._about = tell
    return engine


async def test_requests_name_the_rank_they_are_placed_on(stage):
    engine = await ranked(stage, answers(), ranks=3)
    gateway = await stage.gateway(engine, ready=False, dp_aware=True)
    await gateway.registered(3)
    urls = [f"{engine.url}@{rank}" for rank in range(3)]
    assert [worker.url for worker in gateway.workers] == urls
    answers_by_url = {}
    for _ in urls:
        answer = await gateway.chat(chat(temperature=0.95))
        answers_by_url[answer.worker] = engine.calls[-1].json["data_parallel_rank"]
    assert answers_by_url == dict(zip(urls, range(3), strict=True))
    assert b'"temperature":0.95' in engine.calls[-1].body.replace(b" ", b"")
    assert "routed_dp_rank" not in engine.calls[-1].json


async def test_a_rank_has_load_and_breaker_of_its_own(stage):
    engine = await ranked(stage, resets, answers(), ranks=2)
    gateway = await stage.gateway(
        engine, ready=False, dp_aware=True, cb_failure_threshold=1, cb_timeout_duration_secs=600
    )
    await gateway.registered(2)
    assert (await gateway.chat(chat())).status == 200  # with the other rank
    ranks = [call.json["data_parallel_rank"] for call in engine.calls]
    assert sorted(ranks) == [0, 1]
    bad = f"{engine.url}@{ranks[0]}"
    scrape = await gateway.scrape()
    assert scrape.value("smg_worker_cb_state", worker=bad) == 1
    assert scrape.value("smg_worker_cb_transitions_total", worker=bad, to="open") == 1
    assert scrape.value("smg_worker_cb_state", worker=f"{engine.url}@{ranks[1]}") == 0


async def test_large_bodies_are_read_to_name_the_rank(stage):
    engine = await ranked(stage, answers(), ranks=2)
    gateway = await stage.gateway(
        engine, ready=False, dp_aware=True, max_buffered_request_bytes=10, disable_retries=True
    )
    await gateway.registered(2)
    assert (await gateway.chat(chat("x" * 1000))).status == 200
    assert "data_parallel_rank" in engine.calls[0].json
    scrape = await gateway.scrape()
    assert scrape.value("smg_router_request_body_path_total", reason="worker_mutates_body") == 1


async def test_one_rank_can_leave_and_the_others_stay(stage):
    engine = await ranked(stage, answers(), ranks=2)
    gateway = await stage.gateway(engine, ready=False, dp_aware=True)
    await gateway.registered(2)
    first, second = gateway.workers
    await gateway.ask("PATCH", f"/workers/{first.id}", {"health": {"drain_settle_secs": 0}})
    assert (await gateway.ask("DELETE", f"/workers/{first.id}")).status == 202
    await until(lambda: gateway.workers == (second,), "the rank's removal")
    for _ in range(2):
        assert (await gateway.chat(chat())).worker == second.url
    answer = await gateway.post("/workers", {"url": engine.url})
    assert answer.json["code"] == "WORKER_ALREADY_EXISTS"


async def test_ranks_cannot_be_registered_anew(stage):
    engine = await ranked(stage, answers(), ranks=2)
    gateway = await stage.gateway(engine, ready=False, dp_aware=True)
    await gateway.registered(2)
    answer = await gateway.ask("PUT", f"/workers/{gateway.workers[0].id}", {"url": engine.url})
    assert (answer.status, answer.json["code"]) == (400, "BAD_REQUEST")


@pytest.mark.parametrize("ranks", [1, 4])
async def test_an_engine_of_one_rank_or_a_gateway_that_does_not_care_has_one_worker(stage, ranks):
    engine = await ranked(stage, answers(), ranks=ranks)
    gateway = await stage.gateway(engine, dp_aware=ranks == 1)
    assert [worker.url for worker in gateway.workers] == [engine.url]
    await gateway.chat(chat())
    assert "data_parallel_rank" not in engine.calls[0].json


async def test_simulated_engines_run_a_request_on_its_rank(stage):
    engine = await stage.engine(dp_size=2)
    gateway = await stage.gateway(engine, ready=False, dp_aware=True)
    await gateway.registered(2)
    for _ in range(4):
        assert (await gateway.chat(chat(max_tokens=1))).status == 200
    assert engine.machine.seen[CHAT] == 4


async def test_legs_learn_their_ranks_and_decode_its_partner_s(stage, pairs):
    prefill, decode = await ranked(stage, answers(), ranks=2), await ranked(stage, answers(), ranks=2)
    gateway = await pairs(prefill, decode, ready=False, dp_aware=True)
    await gateway.registered(4)
    seen = set()
    for _ in range(8):
        answer = await gateway.chat(chat())
        filling, decoding = prefill.calls[-1].json, decode.calls[-1].json
        assert answer.worker == f"{decode.url}@{decoding['routed_dp_rank']}"
        assert decoding["disagg_prefill_dp_rank"] == filling["routed_dp_rank"]
        assert "disagg_prefill_dp_rank" not in filling
        assert filling["bootstrap_room"] == decoding["bootstrap_room"]
        seen.add((filling["routed_dp_rank"], decoding["routed_dp_rank"]))
    assert {rank for rank, _ in seen} == {rank for _, rank in seen} == {0, 1}
