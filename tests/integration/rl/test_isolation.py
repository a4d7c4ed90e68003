"""Control calls and inference do not know of each other."""

import asyncio

import pytest

from smg.fleet.breaker import State
from support.bodies import CHAT, chat
from support.grpc_engine import grpc_engines
from support.raw_engine import answers, hangs, resets
from support.waiting import until

BUSY = 300


def by_path(control, inference):
    """One behaviour for control calls, another for requests."""

    async def behave(call):
        await (inference if call.path == CHAT else control)(call)

    return behave


@pytest.mark.parametrize("control", [resets, answers(500), answers(503), hangs])
async def test_failures_leave_breaker_load_and_health_alone(stage, control):
    engine = await stage.raw_engine(by_path(control, answers()))
    trainer = await stage.plane(engine, rl_control_timeout_secs=0.1, cb_failure_threshold=1, disable_retries=True)
    for _ in range(3):
        await trainer.call(engine, "op")
        await trainer.fanout("op", "id!=x")
    worker = trainer.gateway.worker(engine)
    assert (worker.breaker.state, worker.breaker.failures, worker.load) == (State.CLOSED, 0, 0)
    assert (await trainer.gateway.chat(chat())).status == 200


async def test_an_open_breaker_and_a_failed_probe_keep_nobody_from_operating_an_engine(stage):
    engine = await stage.raw_engine(by_path(answers(), answers(500)))
    trainer = await stage.plane(engine, cb_failure_threshold=1, disable_retries=True)
    assert [(await trainer.gateway.chat(chat())).status for _ in range(2)] == [500, 503]
    assert (await trainer.call(engine, "op")).status == 200
    assert (await trainer.fanout("op", "health=ready")).status == 200


async def test_a_control_call_needs_and_takes_no_permit(stage):
    engine = await stage.raw_engine()
    trainer = await stage.plane(engine, max_concurrent_requests=1, queue_size=0)
    asking = asyncio.ensure_future(trainer.gateway.chat(chat()))
    request = await engine.call()
    controlling = asyncio.ensure_future(trainer.fanout("op", "id!=x"))
    control = await engine.call()
    assert trainer.gateway.permits == (1, 0)
    assert trainer.gateway.loads == [1]
    await request.answer()
    assert (await asking).status == 200
    assert trainer.gateway.permits == (0, 0)
    assert trainer.gateway.loads == [0]
    await control.answer()
    assert (await controlling).status == 200


async def test_a_pause_reaches_a_busy_engine_past_all_its_requests(stage):
    engine = await stage.raw_engine()
    trainer = await stage.plane(engine)
    requests = [asyncio.ensure_future(trainer.gateway.chat(chat())) for _ in range(BUSY)]
    await until(lambda: len(engine.calls) == BUSY)
    waiting = [await engine.call() for _ in range(BUSY)]
    pausing = asyncio.ensure_future(trainer.fanout("pause_generation", "id!=x", b"{}"))
    await (await engine.call()).answer()
    assert (await pausing).status == 200
    for call in waiting:
        await call.answer()
    assert {answer.status for answer in await asyncio.gather(*requests)} == {200}


async def test_calls_to_one_engine_do_not_wait_for_each_other(stage):
    engine = await stage.raw_engine()
    trainer = await stage.plane(engine)
    refitting = asyncio.ensure_future(trainer.call(engine, "update_weights_from_disk", b"{}"))
    refit = await engine.call()
    aborting = asyncio.ensure_future(trainer.call(engine, "abort_request", b"{}"))
    await (await engine.call()).answer()
    assert (await aborting).status == 200
    assert not refitting.done()
    await refit.answer()
    assert (await refitting).status == 200


async def test_connections_are_not_shared_with_requests(stage):
    engine = await stage.raw_engine(answers())
    trainer = await stage.plane(engine)
    for _ in range(3):
        await trainer.call(engine, "op")
        await trainer.gateway.chat(chat())
    pool = trainer.gateway.gateway.upstream.link(trainer.gateway.worker(engine)).pool
    assert (len(pool), trainer.gateway.gateway.control_calls.kept) == (1, 1)
    assert engine.connections == 2  # one for all requests, and one for all control calls


async def test_fan_outs_in_a_row_use_the_connections_of_the_first(stage):
    engines = [await stage.raw_engine(answers()) for _ in range(3)]
    trainer = await stage.plane(*engines)
    for path in ("pause_generation", "update_weights_from_disk", "continue_generation"):
        assert (await trainer.fanout(path, "id!=x", b"{}")).json["succeeded"] == 3
    assert [engine.connections for engine in engines] == [1, 1, 1]


async def test_a_kept_connection_ends_with_its_worker(stage):
    gone, stays = await stage.raw_engine(answers()), await stage.raw_engine(answers())
    trainer = await stage.plane(gone, stays)
    await trainer.fanout("op", "id!=x")
    calls = trainer.gateway.gateway.control_calls
    assert calls.kept == 2
    trainer.gateway.gateway.registry.remove(trainer.gateway.worker(gone).id)
    assert calls.kept == 1


async def test_nothing_is_kept_for_the_worker_while_the_gateway_drains(stage):
    engine = await stage.raw_engine(answers())
    trainer = await stage.plane(engine)
    await trainer.fanout("op", "id!=x")
    trainer.gateway.gateway.begin_draining()
    calls = trainer.gateway.gateway.control_calls
    assert calls.kept == 0
    assert (await trainer.fanout("op", "id!=x")).status == 200
    assert (engine.connections, calls.kept) == (2, 0)


async def test_a_large_fleet_is_called_within_the_window(stage):
    engines = [await stage.raw_engine() for _ in range(20)]
    trainer = await stage.plane(*engines, rl_fanout_concurrency=4)
    fanning = asyncio.ensure_future(trainer.fanout("op", "id!=x"))
    answered = 0
    while answered < len(engines):
        await until(lambda: sum(len(e.calls) for e in engines) == min(answered + 4, len(engines)))  # noqa: B023
        under_way = [call for engine in engines for call in engine.calls if not call.over.done()]
        assert len(under_way) == min(4, len(engines) - answered)
        await under_way[0].answer()
        answered += 1
    assert (await fanning).json["succeeded"] == 20
    assert {len(engine.calls) for engine in engines} == {1}


@pytest.fixture
async def start_engine():
    async with grpc_engines() as start:
        yield start


async def test_workers_of_other_transports_are_listed_and_never_called_by_requests(stage, start_engine, tmp_path):
    engine = await stage.engine()
    other = await start_engine("vllm")
    trainer = await stage.plane(engine)
    zmq, grpc = f"ipc://{tmp_path}/engine.sock", other.url
    specs = [{"url": zmq, "runtime_type": "vllm"}, {"url": grpc}]
    for spec in specs:
        labelled = {**spec, "labels": {"model_id": "m"}}
        assert (await trainer.gateway.post("/workers", labelled)).status == 202
    await until(lambda: len(trainer.gateway.workers) == 3)
    rows = await trainer.rows()
    assert {url: (rows[url]["connection_mode"], rows[url]["health"]) for url in (zmq, grpc)} == {
        zmq: ("zmq", "pending"),
        grpc: ("grpc", "ready"),
    }
    assert {(await trainer.gateway.chat(chat())).worker for _ in range(4)} == {engine.url}
    answer = await trainer.fanout("flush_cache", "model=m")
    assert (answer.status, answer.json["total"], answer.json["succeeded"]) == (207, 3, 1)
    assert {row["connection_mode"] for row in answer.json["failed"]} == {"zmq", "grpc"}
    assert {row["error"] for row in answer.json["failed"]} == {"unsupported_connection_mode"}
    refused = await trainer.gateway.post(f"/v1/rl/workers/{rows[zmq]['id']}/engine/op", b"")
    assert (refused.status, refused.json["connection_mode"]) == (422, "zmq")
    assert set(other.calls) <= {"HealthCheck", "GetModelInfo", "GetServerInfo"}
