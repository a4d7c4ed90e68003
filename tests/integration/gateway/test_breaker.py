"""When a worker's breaker opens, who gets no requests then, and how it closes again."""

import pytest

from support.bodies import chat
from support.raw_engine import answers, breaks_off, resets

LONG_SECS = 600.0
SHORT_SECS = 0.05


async def state(gateway, engine):
    """The breaker's state as metrics say it: 0 closed, 1 open, 2 half-open."""
    return (await gateway.scrape()).value("smg_worker_cb_state", worker=engine.url)


async def failures(gateway, engine):
    scrape = await gateway.scrape()
    return scrape.value("smg_worker_cb_outcomes_total", worker=engine.url, outcome="failure")


@pytest.mark.parametrize("failure", [answers(503), answers(500), answers(408), resets, breaks_off])
async def test_a_request_charges_a_worker_once_however_often_it_tried(stage, failure):
    engine = await stage.raw_engine(failure)
    gateway = await stage.gateway(engine, retry_max_retries=4)
    await gateway.chat(chat())
    assert await failures(gateway, engine) == 1
    await gateway.chat(chat())
    assert await failures(gateway, engine) == 2
    assert gateway.worker(engine).breaker.failures == 2


async def test_failures_in_a_row_open_it_and_nobody_is_asked_then(stage):
    engine = await stage.raw_engine(answers(503))
    gateway = await stage.gateway(
        engine, disable_retries=True, cb_failure_threshold=3, cb_timeout_duration_secs=LONG_SECS
    )
    for _ in range(3):
        assert await state(gateway, engine) == 0
        assert (await gateway.chat(chat())).worker == engine.url
    assert await state(gateway, engine) == 1
    answer = await gateway.chat(chat())
    assert (answer.status, answer.code) == (503, "no_available_workers")
    assert answer.headers["retry-after"] == "1"
    assert len(engine.calls) == 3
    scrape = await gateway.scrape()
    assert scrape.value("smg_worker_cb_transitions_total", worker=engine.url, **{"from": "closed", "to": "open"}) == 1
    assert scrape.value("smg_router_request_errors_total", error_type="no_workers") == 1


async def test_an_open_breaker_sends_everything_to_the_others(stage):
    bad, good = await stage.raw_engine(resets), await stage.engine()
    gateway = await stage.gateway(bad, good, cb_failure_threshold=1, cb_timeout_duration_secs=LONG_SECS)
    for _ in range(6):
        answer = await gateway.chat(chat())
        assert (answer.status, answer.worker) == (200, good.url)
    assert len(bad.calls) == 1


async def test_a_success_in_between_starts_the_count_anew(stage):
    engine = await stage.raw_engine(answers(503), answers(), answers(503), answers(404), answers(503), answers())
    gateway = await stage.gateway(engine, disable_retries=True, cb_failure_threshold=2)
    statuses = [(await gateway.chat(chat())).status for _ in range(6)]
    assert statuses == [503, 200, 503, 404, 503, 200]
    assert await state(gateway, engine) == 0


async def test_too_many_requests_says_nothing_about_a_worker(stage):
    engine = await stage.raw_engine(answers(503), answers(429), answers(503))
    gateway = await stage.gateway(
        engine, disable_retries=True, cb_failure_threshold=2, cb_timeout_duration_secs=LONG_SECS
    )
    for _ in range(3):
        await gateway.chat(chat())
    assert await state(gateway, engine) == 1


async def test_after_a_while_requests_pass_on_trial_and_successes_close_it(stage):
    engine = await stage.raw_engine(answers(503), answers())
    gateway = await stage.gateway(
        engine,
        disable_retries=True,
        cb_failure_threshold=1,
        cb_success_threshold=2,
        cb_timeout_duration_secs=SHORT_SECS,
    )
    assert (await gateway.chat(chat())).status == 503
    breaker = gateway.worker(engine).breaker
    assert breaker.state.name == "OPEN"
    while (await gateway.chat(chat())).status != 200:
        assert len(engine.calls) == 1
    assert await state(gateway, engine) == 2
    assert (await gateway.chat(chat())).status == 200
    assert await state(gateway, engine) == 0


async def test_one_failure_on_trial_opens_it_again(stage):
    engine = await stage.raw_engine(answers(503), answers(503), answers())
    gateway = await stage.gateway(
        engine, disable_retries=True, cb_failure_threshold=1, cb_timeout_duration_secs=SHORT_SECS
    )
    answer = await gateway.chat(chat())
    assert answer.status == 503
    while len(engine.calls) < 2:
        await gateway.chat(chat())
    scrape = await gateway.scrape()
    assert scrape.value("smg_worker_cb_transitions_total", **{"from": "half_open", "to": "open"}) == 1


async def test_a_stream_that_breaks_is_a_failure_and_one_that_ends_is_a_success(stage):
    async def breaks(call):
        await call.begin_stream()
        await call.event("half")
        call.reset()

    async def ends(call):
        await call.begin_stream()
        await call.event("whole")
        await call.end_stream()

    engine = await stage.raw_engine(breaks, ends)
    gateway = await stage.gateway(engine)
    await gateway.chat(chat(stream=True))
    assert gateway.worker(engine).breaker.failures == 1
    await gateway.chat(chat(stream=True))
    assert gateway.worker(engine).breaker.failures == 0


async def test_refusals_of_the_gateway_charge_nobody(stage):
    engine = await stage.engine()
    gateway = await stage.gateway(engine, max_payload_size=1000)
    for body in (b"{", chat(temperature=9), chat("x" * 2000), chat(model="nobody")):
        assert (await gateway.chat(body)).status >= 400
    assert gateway.worker(engine).breaker.failures == 0
    assert (await gateway.scrape()).matching("smg_worker_cb_outcomes_total") == []


async def test_it_can_be_turned_off_and_counts_on(stage):
    engine = await stage.raw_engine(resets)
    gateway = await stage.gateway(engine, disable_retries=True, disable_circuit_breaker=True, cb_failure_threshold=1)
    for _ in range(3):
        assert (await gateway.chat(chat())).code == "call_upstream_request_error"
    assert await state(gateway, engine) == 0
    scrape = await gateway.scrape()
    assert scrape.value("smg_worker_cb_consecutive_failures", worker=engine.url) == 3


async def test_a_worker_s_own_thresholds_go_before_the_gateway_s(stage):
    engine = await stage.raw_engine(answers(503))
    gateway = await stage.gateway(disable_retries=True)
    resilience = {"cb_failure_threshold": 1, "cb_timeout_secs": 600}
    await gateway.post("/workers", {"url": engine.url, "resilience": resilience})
    await gateway.registered(1)
    await gateway.chat(chat())
    assert await state(gateway, engine) == 1
