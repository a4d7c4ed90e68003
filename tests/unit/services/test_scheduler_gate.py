"""The scheduler's gate wakes who may run, ends who is preempted, and loses no slot, whatever its visitors do."""

import asyncio
import random

import pytest
import uvloop

from smg.admission.bucket import TokenBucket
from smg.config.scheduler_rules import ClassRules, Priority, SchedulerRules
from smg.errors import GatewayError
from smg.services.scheduler_accounts import SchedulerAccounts
from smg.services.scheduler_gate import SchedulerGate
from smg.telemetry.metrics import Metrics


class FakeExchange:
    def __init__(self, priority=None, tenant="anonymous"):
        self.headers = {} if priority is None else {b"x-smg-priority": priority}
        self.tenant = tenant
        self.status = 0
        self.cut_short = None
        self.error_code = ""


class Visitor:
    """A request that passes the gate and stays inside until it is let go, as the front would run it."""

    def __init__(self, house, priority=None, tenant="anonymous"):
        self.house = house
        self.exchange = FakeExchange(priority, tenant)
        self.inside = False
        self.outcome = None
        self.done = asyncio.Event()
        self.task = asyncio.ensure_future(self._visit())

    async def _visit(self):
        gate, entered = self.house.gate, False
        try:
            if not gate.try_enter(self.exchange):
                await gate.enter(self.exchange)
            entered = self.inside = True
            await self.done.wait()
            self.outcome = "done"
        except asyncio.CancelledError:
            cut = self.exchange.cut_short
            self.outcome = "gone" if cut is None else cut.code
        except GatewayError as error:
            self.outcome = error.code
        finally:
            self.inside = False
            if entered:
                gate.leave(self.exchange)

    async def leave(self):
        self.done.set()
        await turn()

    async def vanish(self):
        self.task.cancel()
        await turn()


class House:
    """A gate, and what its metrics say."""

    def __init__(self, capacity=1, ceilings=(), default_ceiling=Priority.SYSTEM, rate=None, **classes):
        plain = {"reserved_floor": 0, "queue_size": 4, "queue_timeout_secs": 30, "starvation_threshold_secs": 25}
        rules = {p: ClassRules(**{**plain, "can_preempt": False, **classes.get(p.label, {})}) for p in Priority}
        self.capacity = capacity
        self.metrics = Metrics()
        self.gate = SchedulerGate(
            SchedulerRules(rules, dict(ceilings)),
            default_ceiling,
            lambda: self.capacity,
            SchedulerAccounts(self.metrics, str.upper),
            rate,
        )

    async def come(self, *args, **kwargs):
        visitor = Visitor(self, *args, **kwargs)
        await turn()
        return visitor

    def counted(self, family):
        return {labels: child.value for labels, child in getattr(self.metrics, family).recorded()}

    @property
    def outcomes(self):
        return {f"{labels[0]} {labels[1]}": value for labels, value in self.counted("scheduler_admit").items()}

    @property
    def at_rest(self):
        return (self.gate.in_flight, self.gate.waiting, self.gate._visits) == (0, 0, {})


async def turn(times=5):
    for _ in range(times):
        await asyncio.sleep(0)


async def until(check):
    for _ in range(10_000):
        if check():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came true")


# --- coming in


async def test_slots_are_free_up_to_the_capacity_and_pass_on():
    house = House(2)
    first, second, third = [await house.come() for _ in range(3)]
    assert (first.inside, second.inside, third.inside) == (True, True, False)
    assert (house.gate.in_flight, house.gate.waiting) == (2, 1)
    await first.leave()
    assert third.inside
    await second.leave()
    await third.leave()
    assert house.at_rest
    assert house.outcomes == {"default admitted": 3}
    assert house.counted("http_rate_limit") == {("allowed",): 3}
    assert house.metrics.scheduler_queue_wait_seconds.labels("default").count == 1


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, "default"),
        (b"bulk", "bulk"),
        (b" System\t", "system"),
        (b"INTERACTIVE", "interactive"),
        (b"urgent", "default"),
        (b"", "default"),
        (b"bulk, system", "default"),
    ],
)
async def test_the_class_is_that_of_the_header_in_any_case(header, expected):
    house = House()
    visitor = await house.come(header)
    assert house.outcomes == {f"{expected} admitted": 1}
    unknown = header is not None and expected == "default"
    assert house.counted("scheduler_unknown_priority_value") == ({("ANONYMOUS",): 1} if unknown else {})
    await visitor.leave()


async def test_no_tenant_gets_more_than_its_ceiling():
    house = House(10, {"auth:vip": Priority.SYSTEM, "auth:batch": Priority.BULK}, Priority.DEFAULT)
    for tenant, priority in [
        ("auth:vip", b"system"),
        ("auth:batch", None),
        ("ip:1", b"interactive"),
        ("ip:1", b"bulk"),
    ]:
        await (await house.come(priority, tenant)).leave()
    assert house.outcomes == {"system admitted": 1, "bulk admitted": 2, "default admitted": 1}
    assert house.counted("scheduler_clamp") == {
        ("AUTH:BATCH", "default", "bulk"): 1,
        ("IP:1", "interactive", "default"): 1,
    }


async def test_a_full_queue_refuses():
    house = House(bulk={"queue_size": 1})
    inside, waiting, refused = [await house.come(b"bulk") for _ in range(3)]
    assert refused.outcome == "scheduler_queue_full"
    assert house.outcomes == {"bulk admitted": 1, "bulk rejected_queue_full": 1}
    assert house.counted("http_rate_limit") == {("allowed",): 1, ("rejected",): 1}
    await inside.leave()
    await waiting.leave()
    assert house.at_rest


async def test_the_rate_comes_before_the_slots_and_its_tokens_are_not_returned():
    house = House(10, rate=TokenBucket(2, 0.001, asyncio.get_running_loop().time()))
    visitors = [await house.come() for _ in range(3)]
    assert [v.outcome for v in visitors] == [None, None, "scheduler_queue_full"]
    for visitor in visitors:
        await visitor.leave()
    assert (await house.come()).outcome == "scheduler_queue_full"
    assert house.at_rest


# --- waiting


async def test_a_wait_that_takes_too_long_is_refused_and_leaves_no_trace():
    house = House(default={"queue_timeout_secs": 0.01})
    inside, late = await house.come(), await house.come()
    await until(lambda: late.outcome)
    assert late.outcome == "scheduler_queue_timeout"
    assert (house.gate.in_flight, house.gate.waiting) == (1, 0)
    assert house.outcomes == {"default admitted": 1, "default rejected_queue_timeout": 1}
    await inside.leave()
    assert house.at_rest


async def test_the_timer_serves_the_next_wait_as_well():
    house = House(default={"queue_timeout_secs": 0.03}, bulk={"queue_timeout_secs": 0.01})
    inside, slow, quick = await house.come(), await house.come(), await house.come(b"bulk")
    await until(lambda: quick.outcome)
    assert slow.outcome is None
    await until(lambda: slow.outcome)
    await inside.leave()
    assert house.at_rest


async def test_a_starving_request_takes_an_idle_reserved_slot_when_its_time_has_come():
    house = House(2, system={"reserved_floor": 1}, bulk={"starvation_threshold_secs": 0.01})
    first, starving = await house.come(b"bulk"), await house.come(b"bulk")
    assert not starving.inside
    await until(lambda: starving.inside)
    assert house.counted("scheduler_starvation_promotion") == {("bulk",): 1}
    for visitor in (first, starving):
        await visitor.leave()


async def test_a_reserved_slot_that_falls_idle_is_given_to_who_starves():
    house = House(2, system={"reserved_floor": 1}, bulk={"starvation_threshold_secs": 0.01})
    first, urgent, starving = await house.come(b"bulk"), await house.come(b"system"), await house.come(b"bulk")
    await urgent.leave()
    assert not starving.inside
    await until(lambda: starving.inside)
    for visitor in (first, starving):
        await visitor.leave()


async def test_who_leaves_while_waiting_gives_its_place_up():
    house = House()
    inside, leaving, patient = await house.come(), await house.come(), await house.come()
    await leaving.vanish()
    assert leaving.outcome == "gone"
    assert leaving.exchange.error_code == "scheduler_client_cancelled"
    assert house.outcomes["default client_cancelled"] == 1
    await inside.leave()
    assert patient.inside
    await patient.leave()
    assert house.at_rest


@pytest.mark.parametrize("granted_first", [True, False])
async def test_a_slot_that_comes_to_a_visitor_that_leaves_is_passed_on(granted_first):
    house = House()
    inside, leaving, patient = await house.come(), await house.come(), await house.come()
    steps = [inside.done.set, leaving.task.cancel]
    if granted_first:
        steps[0]()
        await asyncio.sleep(0)
        steps[1]()
    else:
        for step in steps[::-1]:
            step()
    await turn()
    assert leaving.outcome == "gone"
    assert patient.inside
    await patient.leave()
    assert house.at_rest


# --- preemption

PREEMPTS = {"can_preempt": True}


async def test_a_victim_is_told_why_and_its_slot_is_the_preemptor_s():
    house = House(interactive=PREEMPTS)
    victim, lower = await house.come(b"bulk"), await house.come(b"default")
    urgent = await house.come(b"interactive")
    assert victim.outcome == "scheduler_preempted"
    assert victim.exchange.cut_short.retry_after_secs == 1
    assert urgent.inside
    assert not lower.inside
    assert house.counted("scheduler_preemption") == {("bulk", "interactive"): 1}
    assert house.outcomes == {"bulk admitted": 1, "bulk preempted": 1, "interactive admitted": 1}
    await urgent.leave()
    await lower.leave()
    assert house.at_rest


async def test_nothing_is_preempted_once_it_is_answered():
    house = House(interactive=PREEMPTS)
    running = await house.come(b"bulk")
    running.exchange.status = 200
    urgent = await house.come(b"interactive")
    assert not urgent.inside
    assert running.exchange.cut_short is None
    await running.leave()
    assert running.outcome == "done"
    assert urgent.inside
    await urgent.leave()


async def test_a_victim_that_was_let_in_in_the_same_moment_gives_its_slot_back():
    house = House(interactive=PREEMPTS)
    first, victim = await house.come(b"bulk"), await house.come(b"bulk")
    first.done.set()
    urgent = Visitor(house, b"interactive")  # comes when the slot is the victim's, who does not know yet
    await turn()
    assert victim.outcome == "scheduler_preempted"
    assert urgent.inside
    await urgent.leave()
    assert house.at_rest
    assert house.outcomes == {"bulk admitted": 1, "bulk preempted": 1, "interactive admitted": 1}


async def test_a_preemptor_that_leaves_at_once_leaves_its_slot_to_others():
    house = House(interactive=PREEMPTS)
    victim, patient = await house.come(b"bulk"), await house.come(b"bulk")
    urgent = Visitor(house, b"interactive")
    await asyncio.sleep(0)
    urgent.task.cancel()
    await turn()
    assert victim.outcome == "scheduler_preempted"
    assert urgent.outcome == "gone"
    assert patient.inside
    await patient.leave()
    assert house.at_rest


# --- the fleet


async def test_the_capacity_is_asked_for_again_when_the_fleet_changes():
    house = House(1)
    visitors = [await house.come() for _ in range(3)]
    house.capacity = 2
    house.gate.resize()
    await turn()
    assert [v.inside for v in visitors] == [True, True, False]
    house.capacity = 1
    house.gate.resize()
    await visitors[0].leave()
    assert not visitors[2].inside
    await visitors[1].leave()
    assert visitors[2].inside
    await visitors[2].leave()


async def test_the_gauges_show_the_state_of_every_class():
    house = House(4, interactive={"reserved_floor": 2}, bulk={"queue_size": 8})
    visitors = [await house.come(b"bulk") for _ in range(4)]
    metrics = house.metrics
    assert metrics.scheduler_inflight.readings()["bulk",] == 2
    assert metrics.scheduler_queue_depth.readings()["bulk",] == 2
    assert metrics.scheduler_queue_size_limit.labels("bulk").value == 8
    assert metrics.scheduler_utilization.readings()[()] == 0.5
    pressure = metrics.scheduler_class_capacity_pressure.readings()
    assert (pressure["bulk",], pressure["interactive",]) == (1.0, 0.5)
    for visitor in visitors:
        await visitor.leave()


# --- whatever happens


def on_uvloop(run):
    """Run on the loop the gateway uses: its clock counts whole milliseconds."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


@pytest.mark.parametrize("seed", range(20))
def test_any_coming_and_going_ends_with_every_slot_free(seed):
    rng = random.Random(seed)

    async def run():
        house = House(
            3,
            interactive={**PREEMPTS, "queue_size": 2, "queue_timeout_secs": 0.004},
            system={**PREEMPTS, "reserved_floor": 1},
            bulk={"starvation_threshold_secs": 0.003, "queue_timeout_secs": 0.006},
        )
        visitors, most = [], 0
        for _ in range(150):
            visitor = Visitor(house, rng.choice([b"system", b"interactive", b"default", b"bulk"]))
            visitors.append(visitor)
            for _ in range(rng.randrange(3)):
                await asyncio.sleep(0)
            other = rng.choice(visitors)
            match rng.randrange(6):
                case 0:
                    other.task.cancel()
                case 1:
                    house.capacity = rng.randrange(1, 6)
                    house.gate.resize()
                case 2:
                    other.exchange.status = 200 if other.inside else 0
                case _:
                    other.done.set()
            inside = sum(v.inside for v in visitors)
            most = max(most, inside)
            assert house.gate.in_flight >= inside
            if rng.random() < 0.1:
                await asyncio.sleep(0.002)
        house.capacity = 5  # with fewer, a reservation may keep the last ones waiting until they starve
        house.gate.resize()
        for visitor in visitors:
            visitor.done.set()
        async with asyncio.timeout(10):
            await asyncio.gather(*[v.task for v in visitors], return_exceptions=True)
        assert most <= 5
        assert house.at_rest
        assert all(v.outcome for v in visitors if not v.task.cancelled())

    on_uvloop(run)
