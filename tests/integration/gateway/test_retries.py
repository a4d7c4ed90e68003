"""What is tried again, where, how often, and what the client gets when nothing helped."""

import socket
from dataclasses import dataclass

import pytest

from smg.fleet.worker import Status
from smg.sim.faults import Fault
from support.bodies import CHAT, chat, padded_chat
from support.raw_engine import (
    answers,
    breaks_its_chunks,
    breaks_off,
    closes,
    hangs,
    loses_its_second_call,
    resets,
    stalls,
    streams,
    talks_nonsense,
)
from support.waiting import until

SHORT_SECS = 0.5


@dataclass
class Nowhere:
    """An engine that is not there."""

    url: str


@pytest.fixture
def nowhere():
    with socket.socket() as taken:  # bound and not listening: connecting to it is refused
        taken.bind(("127.0.0.1", 0))
        yield Nowhere(f"http://127.0.0.1:{taken.getsockname()[1]}")


async def pair(stage, *script, **settings):
    """A gateway in front of an engine that follows a script, whose turn is first, and one in good order."""
    bad, good = await stage.raw_engine(*script), await stage.raw_engine(answers(200, b'{"good":1}'))
    return await stage.gateway(bad, good, **settings), bad, good


async def ask_until_the_bad_one_was_asked(gateway, bad, body=None):
    """The policy's first turn is random: ask until the engine that fails had its turn, and give that answer."""
    while True:
        answer = await gateway.chat(body or chat())
        if bad.calls:
            return answer
        assert answer.status == 200


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
async def test_a_failure_status_is_tried_again_on_another_worker(stage, status):
    gateway, bad, good = await pair(stage, answers(status))
    answer = await ask_until_the_bad_one_was_asked(gateway, bad)
    assert (answer.status, answer.worker) == (200, good.url)
    assert len(bad.calls) == 1


FAILURES = {
    "a reset": resets,
    "an end before the answer": closes,
    "no answer in time": hangs,
    "a body that breaks off": breaks_off,
    "a body that stalls": stalls,
    "broken chunks": breaks_its_chunks,
    "nonsense": talks_nonsense,
}


def patience(failure):
    """Only a worker that is silent needs a deadline that passes soon."""
    return {"request_timeout_secs": SHORT_SECS if failure in {hangs, stalls} else 60.0}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
async def test_an_answer_that_does_not_come_whole_is_tried_again_on_another_worker(stage, failure):
    gateway, bad, good = await pair(stage, failure, **patience(failure))
    answer = await ask_until_the_bad_one_was_asked(gateway, bad)
    assert (answer.status, answer.worker) == (200, good.url)
    assert len(bad.calls) == 1


CODES = {
    "reset": (resets, 500, "call_upstream_request_error"),
    "end": (closes, 500, "call_upstream_request_error"),
    "silence": (hangs, 504, "call_upstream_timeout"),
    "half a body": (breaks_off, 500, "read_response_body_failed"),
    "stalled body": (stalls, 504, "call_upstream_timeout"),
    "broken chunks": (breaks_its_chunks, 500, "call_upstream_request_error"),
    "nonsense": (talks_nonsense, 500, "call_upstream_request_error"),
}


@pytest.mark.parametrize(("failure", "status", "code"), CODES.values(), ids=CODES)
async def test_when_attempts_run_out_the_error_names_what_happened_last(stage, failure, status, code):
    engine = await stage.raw_engine(failure)
    gateway = await stage.gateway(engine, retry_max_retries=2, **patience(failure))
    answer = await gateway.chat(chat())
    assert (answer.status, answer.code) == (status, code)
    assert len(engine.calls) == 2
    scrape = await gateway.scrape()
    assert scrape.value("smg_worker_retries_total", endpoint="chat") == 1
    assert scrape.value("smg_worker_retries_exhausted_total", endpoint="chat") == 1
    assert scrape.value("smg_router_upstream_responses_total", error_code=code) == 2


async def test_a_worker_that_refuses_connections_is_left_for_another(stage, nowhere):
    good = await stage.engine()
    gateway = await stage.gateway(good)
    await gateway.post("/workers", {"url": nowhere.url, "runtime_type": "external", "models": [{"id": "m"}]})
    await gateway.registered(2)
    for _ in range(4):
        answer = await gateway.chat(chat())
        assert (answer.status, answer.worker) == (200, good.url)
    assert (await gateway.scrape()).value("smg_worker_errors_total", error_type="backend_error") == 2


async def test_a_refused_connection_has_its_own_code(stage, nowhere):
    gateway = await stage.gateway(disable_retries=True)
    await gateway.post("/workers", {"url": nowhere.url, "runtime_type": "external", "models": [{"id": "m"}]})
    await gateway.registered(1)
    answer = await gateway.chat(chat())
    assert (answer.status, answer.code) == (500, "call_upstream_connection_failed")


@pytest.mark.parametrize("status", [429, 503])
async def test_the_same_worker_is_asked_again_when_there_is_no_other(stage, status):
    engine = await stage.raw_engine(answers(status), answers(status), answers(200))
    gateway = await stage.gateway(engine)
    assert (await gateway.chat(chat())).status == 200
    assert len(engine.calls) == 3


async def test_a_500_is_not_asked_for_again_at_the_same_worker(stage):
    engine = await stage.raw_engine(answers(500, b'{"mine":1}'))
    gateway = await stage.gateway(engine)
    answer = await gateway.chat(chat())
    assert (answer.status, answer.json) == (500, {"mine": 1})
    assert len(engine.calls) == 1
    assert (await gateway.scrape()).value("smg_worker_retries_total") == 0


async def test_the_worker_s_last_answer_is_relayed_when_attempts_run_out(stage):
    engine = await stage.raw_engine(*(answers(503, {"attempt": number}) for number in range(1, 9)))
    gateway = await stage.gateway(engine, retry_max_retries=3)
    answer = await gateway.chat(chat())
    assert (answer.status, answer.json) == (503, {"attempt": 3})
    assert answer.worker == engine.url
    assert "x-smg-error-code" not in answer.headers
    assert (await gateway.scrape()).value("smg_worker_retry_backoff_seconds_count", attempt="2") == 1


async def test_a_worker_s_answer_is_better_than_an_error_of_the_gateway_s(stage):
    """The only worker answers 503 and its breaker opens: nobody is left for the second attempt."""
    engine = await stage.raw_engine(answers(503, b'{"mine":1}'))
    gateway = await stage.gateway(engine, cb_failure_threshold=1)
    answer = await gateway.chat(chat())
    assert (answer.status, answer.json) == (503, {"mine": 1})
    assert len(engine.calls) == 1


async def test_a_request_waits_for_a_worker_that_is_coming_back(stage):
    engine = await stage.engine()
    gateway = await stage.gateway(engine, retry_max_retries=1_000_000)
    gateway.set_status(engine, Status.NOT_READY)
    client = await gateway.send("POST", CHAT, chat())
    await until(lambda: gateway.in_flight)
    gateway.set_status(engine, Status.READY)
    assert (await client.answer()).status == 200


async def test_retries_can_be_turned_off(stage):
    engine = await stage.raw_engine(answers(503))
    gateway = await stage.gateway(engine, await stage.raw_engine(answers(503)), disable_retries=True)
    answer = await gateway.chat(chat())
    assert answer.status == 503
    assert (await gateway.scrape()).value("smg_worker_retries_exhausted_total") == 0


async def test_every_worker_is_tried_before_one_is_tried_twice(stage):
    engines = [await stage.raw_engine(answers(503)) for _ in range(4)]
    gateway = await stage.gateway(*engines, retry_max_retries=4)
    assert (await gateway.chat(chat())).status == 503
    assert [len(engine.calls) for engine in engines] == [1, 1, 1, 1]


async def test_every_attempt_sends_the_same_request(stage):
    engine = await stage.raw_engine(resets, answers(503), breaks_off, answers())
    gateway = await stage.gateway(engine)
    assert (await gateway.chat(chat("once more"), ["x-request-id: same"])).status == 200
    assert {call.body for call in engine.calls} == {engine.calls[0].body}
    assert [call.headers["x-request-id"] for call in engine.calls] == ["same"] * 4


async def test_a_stream_that_is_rejected_before_it_begins_is_tried_again(stage):
    gateway, bad, good = await pair(stage, answers(503))
    good.script[:] = [streams("hello", "[DONE]")]
    while not bad.calls:
        answer = await gateway.chat(chat(stream=True))
        assert answer.events == ["hello", "[DONE]"]


async def test_a_stream_that_has_begun_is_never_tried_again(stage):
    async def breaks(call):
        await call.begin_stream()
        await call.event("half")
        call.reset()

    gateway, bad, good = await pair(stage, breaks)
    good.script[:] = [streams("whole", "[DONE]")]
    seen = [await gateway.chat(chat(stream=True)) for _ in range(2)]
    assert sorted(answer.events[0] for answer in seen) == ["half", "whole"]
    assert (len(bad.calls), len(good.calls)) == (1, 1)


async def test_an_error_status_with_an_event_stream_is_an_answer_and_not_a_stream(stage):
    async def odd(call):
        await call.begin(503, "content-type: text/event-stream", "transfer-encoding: chunked")
        await call.event("busy")
        await call.end_stream()

    gateway, bad, good = await pair(stage, odd)
    answer = await ask_until_the_bad_one_was_asked(gateway, bad)
    assert (answer.status, answer.worker) == (200, good.url)


async def test_an_answer_beyond_the_payload_limit_is_an_error_of_its_worker(stage):
    engine = await stage.raw_engine(answers(200, b"x" * 3000))
    gateway = await stage.gateway(engine, max_payload_size=2000, retry_max_retries=2)
    answer = await gateway.chat(chat())
    assert (answer.status, answer.code) == (502, "upstream_response_too_large")
    assert len(engine.calls) == 2


async def test_an_answer_that_grows_beyond_the_limit_is_cut_off(stage):
    async def grows(call):
        await call.begin(200, "content-type: application/json", "transfer-encoding: chunked")
        try:
            while True:
                await call.chunk(b"x" * 500)
        except ConnectionError:
            call.finish()

    gateway, bad, good = await pair(stage, grows, max_payload_size=2000)
    answer = await ask_until_the_bad_one_was_asked(gateway, bad)
    assert (answer.status, answer.worker) == (200, good.url)


async def test_a_stream_has_no_such_limit(stage):
    gateway = await stage.gateway(await stage.raw_engine(streams(*["x" * 500] * 10)), max_payload_size=2000)
    assert len((await gateway.chat(chat(stream=True))).events) == 10


async def test_a_body_that_was_streamed_to_a_worker_has_one_attempt(stage):
    gateway, bad, good = await pair(stage, answers(503), max_buffered_request_bytes=1000)
    big = padded_chat(2000)
    seen = [await gateway.chat(big) for _ in range(2)]
    assert sorted(answer.status for answer in seen) == [200, 503]
    assert (len(bad.calls), len(good.calls)) == (1, 1)


async def test_a_pooled_connection_that_died_costs_no_attempt(stage):
    """The worker ends an idle connection in the moment the next request uses it: the request goes out once more."""
    engine = await stage.raw_engine(loses_its_second_call)
    gateway = await stage.gateway(engine, disable_retries=True, policy="cache_aware")
    for _ in range(2):
        assert (await gateway.chat(chat())).status == 200
    assert len(engine.calls) == 3
    scrape = await gateway.scrape()
    assert scrape.value("smg_router_upstream_send_retries_total", router_type="http") == 1
    assert scrape.value("smg_worker_cb_outcomes_total", outcome="failure") == 0


@pytest.mark.parametrize("kind", ["error", "reset", "garbage", "hang"])
async def test_faults_of_one_simulated_engine_are_hidden_by_another(stage, kind):
    bad, good = await stage.engines(2)
    gateway = await stage.gateway(bad, good, request_timeout_secs=SHORT_SECS if kind == "hang" else 60.0)
    wanted = (await gateway.chat(chat(max_tokens=8))).json["choices"]
    bad.faults.add(Fault(CHAT, kind, status=503, count=1))
    for _ in range(3):
        answer = await gateway.chat(chat(max_tokens=8))
        assert answer.status == 200
        if kind != "garbage":  # a body of the announced length is relayed as it is: nobody parses answers
            assert answer.json["choices"] == wanted
    assert bad.faults.applied == 1
