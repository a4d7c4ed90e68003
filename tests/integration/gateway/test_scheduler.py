"""Requests enter by their class, and give their slots up to more urgent ones."""

import pytest

from support.bodies import CHAT, chat
from support.client import LEAVING
from support.waiting import until

PLAIN = "reserved_floor: 0, queue_timeout_secs: {}, starvation_threshold_secs: 25, can_preempt: {}, queue_size: 4"


@pytest.fixture
def scheduled(stage, tmp_path):
    """A gateway with as many slots as asked for, and its engine."""

    async def start(slots=1, *, preempts=(), timeout_secs=30, ceiling="system", tail="", **settings):
        entries = [
            f"  {name}: {{{PLAIN.format(timeout_secs, str(name in preempts).lower())}}}"
            for name in ("system", "interactive", "default", "bulk")
        ]
        path = tmp_path / "scheduler.yaml"
        path.write_text("\n".join(["classes:", *entries, tail]), encoding="utf-8")
        engine = await stage.raw_engine()
        gateway = await stage.gateway(
            engine,
            priority_scheduler_enabled=True,
            priority_scheduler_config=str(path),
            priority_scheduler_default_max_class=ceiling,
            **settings,
        )
        gate = gateway.gateway.admission.gate
        gate._capacity = lambda: slots
        gate.resize()
        return gateway, engine

    return start


async def send(gateway, priority, content="hello", waiting=None, **members):
    """Send a request, and wait until so many wait."""
    client = await gateway.send("POST", CHAT, chat(content, **members), [f"x-smg-priority: {priority}"])
    if waiting is not None:
        await until(lambda: gateway.permits[1] == waiting, f"{waiting} waiting requests")
    return client


async def test_the_highest_class_is_served_first(scheduled):
    gateway, engine = await scheduled()
    clients = [await send(gateway, "bulk", "running")]
    call = await engine.call()
    for waiting, priority in enumerate(("bulk", "default", "system", "interactive"), 1):
        clients.append(await send(gateway, priority, priority, waiting))
    order = []
    for _ in range(4):
        await call.answer()
        call = await engine.call()
        order.append(call.json["messages"][0]["content"])
    await call.answer()
    assert order == ["system", "interactive", "default", "bulk"]
    assert [(await client.answer()).status for client in clients] == [200] * 5


async def test_a_full_class_and_a_long_wait_are_told_to_come_back(scheduled):
    gateway, engine = await scheduled(timeout_secs=0.2)
    running = await send(gateway, "bulk")
    call = await engine.call()
    waiting = [await send(gateway, "bulk", waiting=count) for count in (1, 2, 3, 4)]
    refused = await (await send(gateway, "bulk")).answer()
    assert (refused.status, refused.code, refused.headers["retry-after"]) == (429, "scheduler_queue_full", "2")
    for client in waiting:
        late = await client.answer()
        assert (late.status, late.code, late.headers["retry-after"]) == (503, "scheduler_queue_timeout", "2")
    await call.answer()
    assert (await running.answer()).status == 200


async def test_a_preempted_request_is_told_so_and_its_worker_is_left_at_once(scheduled):
    gateway, engine = await scheduled(preempts=("interactive",))
    victim = await send(gateway, "bulk", stream=True)
    call = await engine.call()
    urgent = await send(gateway, "interactive", "urgent")
    answer = await victim.answer()
    assert (answer.status, answer.code) == (503, "scheduler_preempted")
    assert (answer.headers["retry-after"], answer.headers["x-smg-preempted"]) == ("1", "true")
    await call.abandoned()
    call = await engine.call()
    assert call.json["messages"][0]["content"] == "urgent"
    await call.answer()
    assert (await urgent.answer()).status == 200
    await gateway.settled()
    scrape = await gateway.scrape()
    assert scrape.value("smg_scheduler_preemption_total", victim_class="bulk", by_class="interactive") == 1
    assert scrape.value("smg_http_responses_total", error_code="scheduler_preempted", status_code="503") == 1


async def test_the_connection_of_a_preempted_request_serves_on(scheduled):
    gateway, engine = await scheduled(preempts=("interactive",))
    victim = await send(gateway, "bulk")
    await engine.call()
    urgent = await send(gateway, "interactive")
    assert (await victim.answer()).status == 503
    await victim.send("POST", CHAT, chat("again"))
    await (await engine.call()).answer()
    assert (await urgent.answer()).status == 200
    await (await engine.call()).answer()
    assert (await victim.answer()).status == 200


async def test_a_request_whose_body_is_still_coming_can_be_preempted(scheduled):
    gateway, engine = await scheduled(preempts=("interactive",))
    victim = await gateway.connect()
    await victim.send("POST", CHAT, b"{", ["x-smg-priority: bulk"], length=1000)
    await until(lambda: gateway.permits == (1, 0))
    urgent = await send(gateway, "interactive")
    answer = await victim.answer()
    assert (answer.status, answer.code, answer.headers["connection"]) == (503, "scheduler_preempted", "close")
    await (await engine.call()).answer()
    assert (await urgent.answer()).status == 200


async def test_an_answer_that_has_begun_goes_on(scheduled):
    gateway, engine = await scheduled(preempts=("interactive",))
    client = await send(gateway, "bulk", stream=True)
    call = await engine.call()
    await call.begin_stream()
    assert (await client.head()).status == 200
    urgent = await send(gateway, "interactive", waiting=1)
    await call.event("[DONE]")
    await call.end_stream()
    assert await client.chunk() == b"data: [DONE]\n\n"
    await (await engine.call()).answer()
    assert (await urgent.answer()).status == 200


@pytest.mark.parametrize("way", LEAVING)
async def test_who_leaves_while_waiting_is_counted_and_forgotten(scheduled, way):
    gateway, engine = await scheduled()
    running = await send(gateway, "bulk")
    call = await engine.call()
    leaving = await send(gateway, "default", waiting=1)
    LEAVING[way](leaving)
    await until(lambda: gateway.permits == (1, 0), "the place in the queue")
    await call.answer()
    assert (await running.answer()).status == 200
    scrape = await gateway.scrape()
    assert scrape.value("smg_scheduler_admit_total", outcome="client_cancelled", **{"class": "default"}) == 1
    assert any("scheduler_client_cancelled" in line for line in gateway.access_lines())


async def test_tenants_have_ceilings_and_few_have_series_of_their_own(scheduled):
    gateway, engine = await scheduled(
        10,
        ceiling="default",
        tail="tenant_policies: {'auth:vip': {max_class: interactive}}",
        tenant_api_key=("vip:v", "a:1", "b:2"),
        api_key="shared",
        priority_scheduler_tenant_metric_top_n=2,
    )
    for key in ("v", "shared", "1", "2"):
        client = await gateway.send("POST", CHAT, chat(), [f"authorization: Bearer {key}", "x-smg-priority: system"])
        await (await engine.call()).answer()
        assert (await client.answer()).status == 200
    scrape = await gateway.scrape()
    assert scrape.value("smg_scheduler_admit_total", **{"class": "interactive"}) == 1
    assert scrape.value("smg_scheduler_admit_total", **{"class": "default"}) == 3
    clamps = {s.labels["tenant"]: s.value for s in scrape.matching("smg_scheduler_clamp_total")}
    assert clamps == {"auth:vip": 1, "auth:shared": 1, "other": 2}


async def test_the_slots_are_those_that_the_workers_report(stage):
    engines = [await stage.engine(max_running_requests=count) for count in (3, 5)]
    gateway = await stage.gateway(*engines, priority_scheduler_enabled=True)
    gate = gateway.gateway.admission.gate
    await until(lambda: gate._scheduler.capacity == 8, "the capacity of both")
