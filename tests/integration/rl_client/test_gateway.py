"""Both twins through a gateway, with simulated engines behind it."""

import asyncio

import pytest

from smg.fleet.worker import Status
from smg.rl import FanoutError, RlError, aio
from smg.sim.faults import Fault
from support.bodies import MODEL

EVERYONE = "engine=sglang"
REFIT = ("update_weights_from_disk", {"model_path": "/ckpt/step-42", "weight_version": "42"})


def stopped(engines):
    return [engine.machine.stopped for engine in engines]


@pytest.fixture
def fleet(stage, client):
    """Some engines, and a client of the gateway in front of them: `engines, rl = await fleet(2)`."""

    async def put_up(count, *faults, **settings):
        engines = [await stage.engine(*faults), *await stage.engines(count - 1)]
        gateway = await stage.gateway(*engines, enable_rl=True, **settings)
        return engines, client(gateway.url)

    return put_up


# --- discovery and calls


async def test_workers_are_listed_and_found(fleet):
    engines, rl = await fleet(2)
    workers = await rl.workers()
    assert [worker.base_url for worker in workers] == sorted(engine.url for engine in engines)
    first = workers[0]
    assert (first.engine, first.model_id, first.health, first.weight_version) == ("sglang", MODEL, "ready", "default")
    assert (first.tp_size, first.dp_ranks, first.connection_mode) == (1, 1, "http")
    assert first.labels["weight_version"] == "default"
    assert "in_place" in first.capabilities["pause_modes"]
    assert await rl.worker(first.id) == first
    with pytest.raises(RlError) as error:
        await rl.worker("nobody")
    assert (error.value.status, error.value.code, error.value.payload["id"]) == (404, "worker_not_found", "nobody")


async def test_an_engines_answer_is_a_result_also_when_it_refuses(fleet):
    [engine], rl = await fleet(1)
    worker = (await rl.workers())[0]
    info = await rl.call(worker.id, "server_info", method="GET")
    assert (info.worker_id, info.url, info.status, info.body["model_path"]) == (worker.id, engine.url, 200, MODEL)
    refused = await rl.call(worker.id, "pause_generation")  # this engine wants a body
    assert refused.status == 400
    assert (await rl.call(worker.id, "pause_generation", {})).status == 200
    assert engine.machine.stopped
    assert (await rl.call(worker.id, "continue_generation", {})).status == 200


@pytest.mark.parametrize("path", ["../health", "a b", "a?b", "a%2Fb", "a/b/c/d/e"])
async def test_what_is_no_engine_path_is_refused_by_the_gateway(stage, client, path):
    engine = await stage.raw_engine()
    rl = client((await stage.gateway(engine, enable_rl=True)).url)
    worker = (await rl.workers())[0]
    for request in (rl.call(worker.id, path), rl.fanout(path, selector=f"id={worker.id}")):
        with pytest.raises(RlError) as error:
            await request
        assert error.value.code == "invalid_engine_path"
    assert engine.calls == []


# --- fan-outs


async def test_a_fan_out_reaches_everyone_that_matches(fleet):
    engines, rl = await fleet(3)
    report = await rl.fanout(*REFIT, selector=EVERYONE)
    assert (report.total, report.succeeded, report.failed) == (3, 3, [])
    assert sorted(result.url for result in report.results.values()) == sorted(engine.url for engine in engines)
    assert {engine.machine.weight_version for engine in engines} == {"42"}
    one = await rl.fanout("flush_cache", selector=f'base_url="{engines[1].url}"')
    assert [result.url for result in one.results.values()] == [engines[1].url]


async def test_a_fan_out_tells_who_failed(fleet):
    engines, rl = await fleet(2, Fault("/flush_cache", "error", 503))
    with pytest.raises(FanoutError) as error:
        await rl.fanout("flush_cache", selector=EVERYONE)
    partial = await rl.fanout("flush_cache", selector=EVERYONE, allow_partial=True)
    for result in (error.value.result, partial):
        [failure] = result.failed
        assert (failure.url, failure.error, failure.status) == (engines[0].url, "upstream_error", 503)
        assert (result.total, result.succeeded) == (2, 1)
        assert result.results[failure.worker_id].status == 503


@pytest.mark.parametrize(
    ("selector", "code", "member"),
    [
        ("engine=vllm", "no_workers_match", "selector"),
        ("engine", "invalid_selector", "offset"),
        ("", "selector_required", ""),
    ],
)
async def test_a_fan_out_to_nobody_is_refused(fleet, selector, code, member):
    _, rl = await fleet(1)
    with pytest.raises(RlError) as error:
        await rl.fanout("flush_cache", selector=selector, allow_partial=True)
    assert (error.value.status, error.value.code) == (400, code)
    assert member in error.value.payload or not member


# --- pausing


async def test_a_refit_under_pause(fleet, pausing):
    engines, rl = await fleet(2)
    async with pausing(rl, EVERYONE, mode="in_place") as report:
        assert report.succeeded == 2
        assert stopped(engines) == [True, True]
        await rl.fanout(*REFIT, selector=EVERYONE)
    assert stopped(engines) == [False, False]
    assert {engine.machine.weight_version for engine in engines} == {"42"}


async def test_a_pause_that_failed_on_some_workers_leaves_none_paused(fleet, pausing):
    engines, rl = await fleet(2, Fault("/pause_generation", "error", 500))
    with pytest.raises(FanoutError) as error:
        async with pausing(rl, EVERYONE):
            pytest.fail("the block ran")
    assert [failure.url for failure in error.value.result.failed] == [engines[0].url]
    assert engines[1].machine.seen["/pause_generation"] == engines[1].machine.seen["/continue_generation"] == 1
    assert stopped(engines) == [False, False]


async def test_a_block_that_fails_leaves_nobody_paused(fleet, pausing):
    engines, rl = await fleet(2)
    with pytest.raises(LookupError, match="checkpoint") as error:
        async with pausing(rl, EVERYONE):
            raise LookupError("checkpoint")
    assert error.value.__context__ is None
    assert stopped(engines) == [False, False]


async def test_a_block_and_a_resume_that_fail_are_both_told(fleet, pausing):
    engines, rl = await fleet(2, Fault("/continue_generation", "error", 500))
    with pytest.raises(LookupError, match="checkpoint") as error:
        async with pausing(rl, EVERYONE):
            raise LookupError("checkpoint")
    assert isinstance(error.value.__context__, FanoutError)
    assert stopped(engines) == [True, False]


async def test_a_resume_that_fails_on_some_workers_is_raised_and_reaches_the_others(fleet, pausing):
    engines, rl = await fleet(2, Fault("/continue_generation", "error", 500))
    with pytest.raises(FanoutError) as error:
        async with pausing(rl, EVERYONE):
            pass
    assert [failure.url for failure in error.value.result.failed] == [engines[0].url]
    assert stopped(engines) == [True, False]


async def test_a_resume_reaches_those_who_match_when_it_runs(stage, client, pausing):
    engines = await stage.engines(2)
    gateway = await stage.gateway(*engines, enable_rl=True)
    rl = client(gateway.url)
    async with pausing(rl, "health=ready"):
        gateway.set_status(engines[0], Status.NOT_READY)
    assert stopped(engines) == [True, False]


async def test_a_pause_of_nobody_is_refused_and_not_taken_back(fleet, pausing):
    [engine], rl = await fleet(1)
    with pytest.raises(RlError) as error:
        async with pausing(rl, "engine=vllm"):
            pytest.fail("the block ran")
    assert error.value.code == "no_workers_match"
    assert engine.machine.seen["/continue_generation"] == 0


# --- keys


async def test_the_control_plane_wants_its_key(stage, client):
    gateway = await stage.gateway(await stage.engine(), enable_rl=True, api_key="admin-key-1")
    assert len(await client(gateway.url, api_key="admin-key-1").workers()) == 1
    for rl in (client(gateway.url), client(gateway.url, api_key="another")):
        for request in (rl.workers(), rl.call("w", "op"), rl.fanout("op", selector=EVERYONE)):
            with pytest.raises(RlError) as error:
                await request
            assert error.value.status == 401


async def test_a_control_plane_that_is_off_is_an_http_error(stage, client):
    gateway = await stage.gateway(await stage.engine())
    with pytest.raises(RlError) as error:
        await client(gateway.url).workers()
    assert (error.value.status, error.value.code) == (404, "http_error")


# --- leaving early


async def test_a_cancelled_call_ends_the_engines_call(stage):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine, enable_rl=True)
    rl = aio.RL(gateway.url)
    for request in (
        rl.call((await rl.workers())[0].id, "op", {}),
        rl.fanout("op", {}, selector="connection_mode=http"),
    ):
        task = asyncio.create_task(request)
        call = await engine.call()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await call.abandoned()


async def test_a_timeout_of_the_client_ends_the_engines_call(stage, client):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine, enable_rl=True)
    task = asyncio.create_task(client(gateway.url, timeout=0.3).fanout("op", {}, selector="connection_mode=http"))
    call = await engine.call()
    with pytest.raises(TimeoutError):
        await task
    await call.abandoned()


async def test_a_cancelled_block_leaves_nobody_paused(stage):
    engines = await stage.engines(2)
    gateway = await stage.gateway(*engines, enable_rl=True)
    inside = asyncio.Event()

    async def work():
        async with aio.paused(aio.RL(gateway.url), EVERYONE):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await inside.wait()
    assert stopped(engines) == [True, True]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stopped(engines) == [False, False]
