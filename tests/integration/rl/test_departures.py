"""Callers that leave: what is under way ends, nothing more begins, and nothing is on record."""

import asyncio

import pytest

from support.client import LEAVING
from support.raw_engine import answers
from support.waiting import until

leaving = pytest.mark.parametrize("leave", LEAVING.values(), ids=LEAVING)


async def assert_nothing_happened(trainer):
    """No answer is on record, neither in the metrics nor in the log."""
    await trainer.gateway.settled()
    scrape = await trainer.gateway.scrape()
    assert [sample for sample in scrape.samples if sample.name.startswith("smg_rl_")] == []
    assert "smg_rl" not in trainer.gateway.log()


@leaving
async def test_a_caller_that_leaves_ends_its_call(stage, leave):
    engine = await stage.raw_engine()
    trainer = await stage.plane(engine)
    caller = await trainer.gateway.send("POST", trainer.one(engine, "op"), b"{}")
    call = await engine.call()
    leave(caller)
    await call.abandoned()
    await assert_nothing_happened(trainer)


@leaving
async def test_a_caller_that_leaves_in_the_middle_of_an_answer_ends_it(stage, leave):
    engine = await stage.raw_engine()
    trainer = await stage.plane(engine)
    caller = await trainer.gateway.send("POST", trainer.one(engine, "op"), b"{}")
    call = await engine.call()
    await call.begin(200, "content-length: 100")
    leave(caller)
    await call.abandoned()
    await assert_nothing_happened(trainer)


@leaving
async def test_a_caller_that_leaves_ends_its_fan_out_and_no_call_begins(stage, leave):
    engines = [await stage.raw_engine() for _ in range(6)]
    trainer = await stage.plane(*engines, rl_fanout_concurrency=2)
    caller = await trainer.gateway.send("POST", trainer.every("op", "id!=x"), b"{}")
    await until(lambda: sum(len(engine.calls) for engine in engines) == 2)
    calls = [call for engine in engines for call in engine.calls]
    leave(caller)
    await asyncio.gather(*(call.abandoned() for call in calls))
    await assert_nothing_happened(trainer)
    assert sum(len(engine.calls) for engine in engines) == 2


async def test_a_caller_that_left_spoils_nothing_for_the_next(stage):
    engine = await stage.raw_engine()
    trainer = await stage.plane(engine)
    caller = await trainer.gateway.send("POST", trainer.every("op", "id!=x"), b"{}")
    call = await engine.call()
    caller.reset()
    await call.abandoned()
    asking = asyncio.ensure_future(trainer.fanout("op", "id!=x"))
    await (await engine.call()).answer()
    assert (await asking).status == 200


async def test_a_caller_that_leaves_before_its_body_is_there_calls_nobody(stage):
    engine = await stage.raw_engine(answers())
    trainer = await stage.plane(engine)
    caller = await trainer.gateway.send("POST", trainer.every("op", "id!=x"), b"{", length=2)
    await until(lambda: trainer.gateway.in_flight == 1)
    caller.reset()
    await assert_nothing_happened(trainer)
    assert engine.calls == []


async def test_a_worker_that_is_removed_meanwhile_is_still_reported(stage):
    engine = await stage.raw_engine()
    trainer = await stage.plane(engine)
    worker = trainer.gateway.worker(engine)
    asking = asyncio.ensure_future(trainer.fanout("op", "id!=x"))
    call = await engine.call()
    trainer.gateway.gateway.registry.remove(worker.id)
    await call.answer()
    assert list((await asking).json["results"]) == [worker.id]
