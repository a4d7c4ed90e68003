import asyncio

from smg.services.discovery.bell import Bell


async def test_many_rings_are_one_pass_after_the_moment_of_quiet(clock):
    bell = Bell(2.0, sleep=clock.sleep)
    for _ in range(5):
        bell.ring()
    assert await bell.wait(60)
    assert clock.slept == [2.0]
    assert not await bell.wait(0)


async def test_a_ring_in_the_moment_of_quiet_is_part_of_the_pass(clock):
    async def sleep(secs):
        bell.ring()

    bell = Bell(2.0, sleep=sleep)
    bell.ring()
    assert await bell.wait(60)
    assert not await bell.wait(0)


async def test_a_ring_after_it_asks_for_another_pass(clock):
    bell = Bell(0, sleep=clock.sleep)
    bell.ring()
    assert await bell.wait(60)
    bell.ring()
    assert await bell.wait(60)


async def test_a_ring_ends_the_wait(clock):
    bell = Bell(0, sleep=clock.sleep)
    waiting = asyncio.create_task(bell.wait(60))
    await asyncio.sleep(0)
    bell.ring()
    assert await waiting
