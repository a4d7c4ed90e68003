import asyncio

import pytest

from smg.services.supervisor import MAX_BACKOFF_SECS, Supervisor


async def forever():
    await asyncio.Event().wait()


async def test_a_loop_runs_until_it_is_stopped(eventually):
    supervisor = Supervisor()
    seen = []

    async def loop():
        seen.append("began")
        try:
            await forever()
        finally:
            seen.append("ended")

    supervisor.start("one", loop)
    await eventually(lambda: seen == ["began"])
    assert supervisor.running == ("one",)
    await supervisor.stop()
    assert seen == ["began", "ended"]
    assert supervisor.running == ()


async def test_a_loop_that_crashes_is_restarted_after_ever_longer_pauses(clock, eventually):
    supervisor = Supervisor(clock.sleep)
    runs = []

    async def loop():
        runs.append(None)
        if len(runs) < 12:
            raise RuntimeError("boom")
        await forever()

    supervisor.start("one", loop)
    await eventually(lambda: len(runs) == 12)
    assert clock.slept[:4] == [0.1, 0.2, 0.4, 0.8]
    assert clock.slept == sorted(clock.slept)
    assert max(clock.slept) == MAX_BACKOFF_SECS
    await supervisor.stop()


async def test_one_crash_leaves_the_other_loops_alone(clock, eventually):
    supervisor = Supervisor(clock.sleep)
    crashes = []

    async def bad():
        crashes.append(None)
        raise RuntimeError("boom")

    steady = []

    async def good():
        steady.append("began")
        await forever()

    supervisor.start("good", good)
    supervisor.start("bad", bad)
    await eventually(lambda: len(crashes) > 3)
    assert steady == ["began"]
    await supervisor.stop()


async def test_a_loop_that_returns_is_finished(eventually):
    supervisor = Supervisor()
    runs = []

    async def once():
        runs.append(None)

    supervisor.start("once", once)
    await eventually(lambda: supervisor.running == ())
    assert len(runs) == 1


async def test_names_are_unique():
    supervisor = Supervisor()
    supervisor.start("one", forever)
    with pytest.raises(ValueError, match="one"):
        supervisor.start("one", forever)
    await supervisor.stop()


async def test_stopping_waits_for_a_loop_that_takes_its_time():
    supervisor = Supervisor()
    done = []

    async def slow_to_leave():
        try:
            await forever()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            done.append(None)

    supervisor.start("slow", slow_to_leave)
    await asyncio.sleep(0)
    await supervisor.stop()
    assert done == [None]
