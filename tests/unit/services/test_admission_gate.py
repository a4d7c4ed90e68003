"""The gate hands every permit on, whatever happens to those who wait for one."""

import asyncio
import random

import pytest
import uvloop

from smg.errors import GatewayError
from smg.services.admission_gate import AdmissionGate, RateGate

# These gates do not look at the exchange.
ANY = object()


async def turn(times=5):
    for _ in range(times):
        await asyncio.sleep(0)


def new_gate(capacity=1, queue_size=10, timeout_secs=30.0):
    rejected = []
    return AdmissionGate(capacity, queue_size, timeout_secs, rejected.append), rejected


def waiting(gate):
    return asyncio.ensure_future(gate.enter(ANY))


async def refusal(awaitable):
    with pytest.raises(GatewayError) as caught:
        await awaitable
    return caught.value.code


async def test_permits_are_free_up_to_the_capacity():
    gate, _ = new_gate(2)
    assert gate.try_enter(ANY)
    assert gate.try_enter(ANY)
    assert not gate.try_enter(ANY)
    assert gate.in_flight == 2
    gate.leave(ANY)
    assert gate.try_enter(ANY)


async def test_waiters_enter_in_the_order_they_came_and_nobody_overtakes():
    gate, _ = new_gate()
    gate.try_enter(ANY)
    waiters = [waiting(gate) for _ in range(3)]
    await turn()
    for number, waiter in enumerate(waiters):
        assert gate.waiting == 3 - number
        gate.leave(ANY)
        assert not gate.try_enter(ANY)
        await turn()
        assert waiter.done()
        assert [w.done() for w in waiters] == [n <= number for n in range(3)]
    gate.leave(ANY)
    assert (gate.in_flight, gate.waiting) == (0, 0)


async def test_a_full_queue_refuses_at_once():
    gate, rejected = new_gate(queue_size=1)
    gate.try_enter(ANY)
    first = waiting(gate)
    await turn()
    assert await refusal(gate.enter(ANY)) == "admission_queue_full"
    assert rejected == ["full"]
    gate.leave(ANY)
    await first


async def test_without_a_queue_a_refusal_is_no_full_queue():
    gate, rejected = new_gate(queue_size=0)
    gate.try_enter(ANY)
    assert await refusal(gate.enter(ANY)) == "admission_queue_full"
    assert rejected == []


async def test_a_wait_that_takes_too_long_leaves_no_trace():
    gate, rejected = new_gate(timeout_secs=0.01)
    gate.try_enter(ANY)
    assert await refusal(gate.enter(ANY)) == "admission_queue_timeout"
    assert rejected == ["timeout"]
    assert (gate.in_flight, gate.waiting) == (1, 0)
    gate.leave(ANY)
    assert gate.try_enter(ANY)


async def test_a_waiter_that_leaves_gives_its_place_up():
    gate, rejected = new_gate()
    gate.try_enter(ANY)
    first, second = waiting(gate), waiting(gate)
    await turn()
    first.cancel()
    await turn()
    assert first.cancelled()
    assert gate.waiting == 1
    gate.leave(ANY)
    await second
    assert rejected == []


@pytest.mark.parametrize("granted_first", [True, False])
async def test_a_permit_granted_to_a_waiter_that_leaves_is_passed_on(granted_first):
    gate, _ = new_gate()
    gate.try_enter(ANY)
    first, second = waiting(gate), waiting(gate)
    await turn()
    steps = [lambda: gate.leave(ANY), first.cancel]
    for step in steps if granted_first else steps[::-1]:
        step()
    await turn()
    assert first.cancelled()
    assert second.done()
    assert gate.in_flight == 1
    gate.leave(ANY)
    assert (gate.in_flight, gate.waiting) == (0, 0)


async def test_a_permit_granted_to_the_last_waiter_as_it_leaves_is_free_again():
    gate, _ = new_gate()
    gate.try_enter(ANY)
    only = waiting(gate)
    await turn()
    gate.leave(ANY)
    only.cancel()
    await turn()
    assert gate.in_flight == 0
    assert gate.try_enter(ANY)


async def test_all_waiters_leaving_as_the_permit_comes_free_it():
    gate, _ = new_gate(queue_size=50)
    gate.try_enter(ANY)
    waiters = [waiting(gate) for _ in range(50)]
    await turn()
    for waiter in waiters:
        waiter.cancel()
    gate.leave(ANY)
    await turn()
    assert (gate.in_flight, gate.waiting) == (0, 0)


@pytest.mark.parametrize("seed", range(20))
async def test_any_coming_and_going_keeps_the_limit_and_ends_with_all_permits_free(seed):
    rng = random.Random(seed)
    gate, _ = new_gate(capacity=3, queue_size=5, timeout_secs=0.002)
    inside = peak = 0

    async def visit():
        nonlocal inside, peak
        try:
            if not gate.try_enter(ANY):
                await gate.enter(ANY)
        except GatewayError:
            return
        inside += 1
        peak = max(peak, inside)
        assert inside <= 3
        try:
            for _ in range(rng.randrange(4)):
                await asyncio.sleep(0)
            if rng.random() < 0.1:
                await asyncio.sleep(0.003)
        finally:
            inside -= 1
            gate.leave(ANY)

    visits = []
    for _ in range(200):
        visits.append(asyncio.ensure_future(visit()))
        if rng.random() < 0.4:
            await asyncio.sleep(0)
        if rng.random() < 0.3:
            rng.choice(visits).cancel()
    results = await asyncio.gather(*visits, return_exceptions=True)
    assert not [r for r in results if r is not None and not isinstance(r, asyncio.CancelledError)]
    assert peak == 3
    assert (gate.in_flight, gate.waiting, inside) == (0, 0, 0)


async def test_decisions_are_counted_and_leaving_is_none():
    gate, _ = new_gate(queue_size=2, timeout_secs=0.01)
    gate.try_enter(ANY)
    first, second = waiting(gate), waiting(gate)
    await turn()
    assert await refusal(gate.enter(ANY)) == "admission_queue_full"
    second.cancel()
    gate.leave(ANY)
    await first
    assert await refusal(gate.enter(ANY)) == "admission_queue_timeout"
    assert (gate.allowed, gate.rejected) == (2, 2)


# --- the rate


def on_uvloop(run):
    """Run on the loop the gateway uses: its clock counts whole milliseconds."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def new_rate(capacity, per_sec, timeout_secs=30.0):
    rejected = []
    return RateGate(capacity, per_sec, timeout_secs, rejected.append), rejected


async def test_the_bucket_admits_its_capacity_at_once():
    gate, _ = new_rate(2, 0.001)
    assert [gate.try_enter(ANY) for _ in range(3)] == [True, True, False]
    assert gate.in_flight == 2
    gate.leave(ANY)
    assert gate.in_flight == 1
    assert not gate.try_enter(ANY)


@pytest.mark.parametrize("per_sec", [30.0, 70.0, 123.0, 299.0])
def test_who_waits_for_the_next_token_gets_it(per_sec):
    async def run():
        gate, rejected = new_rate(1, per_sec)
        gate.try_enter(ANY)
        for _ in range(8):
            await gate.enter(ANY)
        assert gate.waiting == 0
        assert rejected == []

    on_uvloop(run)


async def test_a_wait_beyond_the_timeout_is_refused_at_once():
    gate, rejected = new_rate(1, 0.001, timeout_secs=1.0)
    gate.try_enter(ANY)
    assert await refusal(gate.enter(ANY)) == "admission_queue_full"
    assert rejected == ["full"]
    assert gate.waiting == 0


async def test_of_those_who_wait_for_one_token_one_gets_it():
    gate, rejected = new_rate(1, 50.0)
    gate.try_enter(ANY)
    results = await asyncio.gather(*(gate.enter(ANY) for _ in range(5)), return_exceptions=True)
    assert [r for r in results if r is None] == [None]
    assert rejected == ["timeout"] * 4
    assert (gate.allowed, gate.rejected) == (2, 4)
    assert (gate.in_flight, gate.waiting) == (2, 0)


async def test_who_leaves_while_waiting_for_a_token_is_counted_out():
    gate, _ = new_rate(1, 0.1)
    gate.try_enter(ANY)
    waiter = waiting(gate)
    await turn()
    assert gate.waiting == 1
    waiter.cancel()
    await turn()
    assert (gate.in_flight, gate.waiting) == (1, 0)
