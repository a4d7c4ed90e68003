"""Pairs of engines that meet: both legs at once, over real connections."""

import asyncio
import json

import pytest

from support.bodies import CHAT, EMBEDDINGS, GENERATE, chat
from support.client import LEAVING
from support.raw_engine import answers, breaks_off, closes, hangs, resets, stalls, streams, talks_nonsense
from support.waiting import until, within

ONCE = {"disable_retries": True}
SHORT_SECS = 0.5
EVENTS = ("one", "two", "[DONE]")
leaving = pytest.mark.parametrize("leave", LEAVING.values(), ids=LEAVING)


async def raw_pair(stage, pairs, **settings):
    """A gateway in front of two engines whose every step is the test's."""
    prefill, decode = await stage.raw_engine(), await stage.raw_engine()
    return await pairs(prefill, decode, **settings), prefill, decode


# --- answers


async def test_simulated_engines_answer_together_as_one_does_alone(stage, pairs):
    prefill, decode, alone = await stage.engines(3)
    gateway = await pairs(prefill, decode)
    single = await stage.gateway(alone)
    for body in (chat(max_tokens=5), chat("again", max_tokens=5, stream=True)):
        answer, expected = await gateway.chat(body), await single.chat(body)
        assert (answer.status, answer.worker) == (200, decode.url)
        if body.get("stream"):
            texts = [
                [json.loads(event)["choices"][0]["delta"].get("content") for event in each.events[:-1]]
                for each in (answer, expected)
            ]
            assert texts[0] == texts[1]
            assert answer.events[-1] == "[DONE]"
        else:
            assert answer.json["choices"] == expected.json["choices"]
    assert [engine.machine.seen[CHAT] for engine in (prefill, decode)] == [2, 2]


async def test_the_client_gets_decode_s_bytes_and_prefill_s_are_dropped(stage, pairs, drained):
    prefill = await stage.raw_engine(streams("not", "for", "you"))
    decode = await stage.raw_engine(streams(*EVENTS))
    gateway = await pairs(prefill, decode)
    for _ in range(3):
        answer = await gateway.chat(chat(stream=True))
        assert answer.body == b"".join(b"data: %b\n\n" % event.encode() for event in EVENTS)
        await drained(gateway, prefill)
    assert [engine.connections for engine in (prefill, decode)] == [1, 1]  # both were kept
    assert prefill.calls[0].json == decode.calls[0].json


async def test_prefill_s_answer_is_read_on_when_decode_s_has_ended(stage, pairs):
    gateway, prefill, decode = await raw_pair(stage, pairs)
    client = await gateway.send("POST", CHAT, chat(stream=True))
    filling, decoding = await prefill.call(), await decode.call()
    await filling.begin_stream()
    await decoding.begin_stream()
    await decoding.event("all")
    await decoding.end_stream()
    assert (await client.answer()).events == ["all"]
    await until(lambda: gateway.loads == [1, 0])
    for _ in range(100):
        await filling.chunk(b"x" * 50_000)  # more than any buffer holds
    await filling.end_stream()
    await gateway.settled()


async def test_the_access_line_names_decode(stage, pairs):
    gateway = await pairs(await stage.engine(), await stage.engine())
    await gateway.chat(chat(max_tokens=1))
    (line,) = gateway.access_lines()
    assert f'worker="{gateway.workers[1].url}"' in line or f"worker={gateway.workers[1].url}" in line


async def test_native_answers_get_the_log_probabilities_of_the_prompt(stage, pairs):
    def says(*entries):
        return answers(200, json.dumps({"text": "x", "meta_info": {"input_token_logprobs": entries}}).encode())

    prefill = await stage.raw_engine(says([-0.5, 1, None], [-0.25, 2, None]))
    decode = await stage.raw_engine(says([-0.125, 3, None]))
    gateway = await pairs(prefill, decode)
    answer = await gateway.post(GENERATE, {"text": "hi", "return_logprob": True})
    logprobs = answer.json["meta_info"]["input_token_logprobs"]
    assert logprobs == [[-0.5, 1, None], [-0.25, 2, None], [-0.125, 3, None]]
    assert answer.headers["content-length"] == str(len(answer.body))


async def test_ids_that_are_none_are_refused_by_the_engine(stage, pairs):
    refuses = answers(400, b'{"error":"ids"}')
    gateway = await pairs(await stage.raw_engine(refuses), await stage.raw_engine(refuses), **ONCE)
    answer = await gateway.post(GENERATE, {"input_ids": "none"})
    assert answer.status == 400


@pytest.mark.parametrize(("path", "name"), [(EMBEDDINGS, "embeddings"), ("/v1/classify", "classify")])
async def test_what_has_no_two_halves_is_refused_without_asking_anybody(stage, pairs, path, name):
    prefill, decode = await stage.engine(), await stage.engine()
    gateway = await pairs(prefill, decode)
    answer = await gateway.post(path, {"model": "m", "input": "text"})
    assert (answer.status, answer.code) == (501, f"{name}_not_supported")
    assert [engine.machine.seen[path] for engine in (prefill, decode)] == [0, 0]


async def test_hinted_tokens_do_not_place_pairs(stage, pairs):
    prefills = await stage.engines(2)
    gateway = await pairs(prefills, await stage.engine(), policy="random", prefill_policy="prefix_hash")
    for number in range(40):
        body = chat(f"{number} " * 300, max_tokens=1)
        assert (await gateway.chat(body, ["x-smg-routing-tokens: 1,2,3"])).status == 200
        if all(engine.machine.seen[CHAT] for engine in prefills):
            return
    pytest.fail("every prompt went to the worker of the hint")


# --- legs that fail

FAILURES = {
    "a reset": (resets, 502),
    "an end before the answer": (closes, 502),
    "no answer in time": (hangs, 504),
    "nonsense": (talks_nonsense, 502),
}


def patience(failure):
    """Only an engine that is silent needs a deadline that passes soon."""
    return {"request_timeout_secs": SHORT_SECS if failure in {hangs, stalls} else 60.0}


@pytest.mark.parametrize(("failure", "status"), FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("leg", ["prefill", "decode"])
async def test_a_leg_that_does_not_answer_takes_the_other_one_with_it(stage, pairs, outcomes, leg, failure, status):
    bad, other = (
        await stage.raw_engine(failure),
        await stage.raw_engine(streams(*EVENTS) if failure is hangs else hangs),
    )
    legs = (bad, other) if leg == "prefill" else (other, bad)
    gateway = await pairs(*legs, **ONCE, **patience(failure))
    answer = await gateway.chat(chat(stream=failure is hangs))
    assert (answer.status, answer.code) == (status, f"{leg}_request_failed")
    await gateway.settled()
    assert await outcomes(gateway, bad) == (0, 1)
    assert (await outcomes(gateway, other))[1] == 0
    scrape = await gateway.scrape()
    assert scrape.value("smg_pd_bootstrap_failures_total") == 1
    kind = "timeout" if status == 504 else "backend_error"
    assert scrape.value("smg_worker_errors_total", worker_type=leg, error_type=kind) == 1
    assert scrape.value("smg_router_request_errors_total", backend_type="pd", error_type=kind) == 1


@pytest.mark.parametrize("leg", ["prefill", "decode"])
async def test_a_leg_that_cannot_be_reached_is_named(stage, pairs, leg):
    gone, other = await stage.raw_engine(), await stage.raw_engine(hangs)
    gateway = await pairs(*((gone, other) if leg == "prefill" else (other, gone)), **ONCE)
    await gone.stop()
    answer = await gateway.chat(chat())
    assert (answer.status, answer.code) == (502, f"{leg}_request_failed")


@pytest.mark.parametrize("failure", [breaks_off, stalls])
async def test_a_decode_answer_that_does_not_end_is_decode_s_failure(stage, pairs, outcomes, failure):
    prefill, decode = await stage.raw_engine(answers()), await stage.raw_engine(failure)
    gateway = await pairs(prefill, decode, **ONCE, **patience(failure))
    answer = await gateway.chat(chat())
    assert answer.code == "decode_request_failed"
    assert answer.status == (504 if failure is stalls else 502)
    assert await outcomes(gateway, prefill) == (1, 0)
    assert await outcomes(gateway, decode) == (0, 1)


@pytest.mark.parametrize("status", [400, 404, 500, 503])
async def test_a_refusal_of_prefill_ends_decode_at_once(stage, pairs, status):
    gateway, prefill, decode = await raw_pair(stage, pairs, **ONCE)
    client = await gateway.send("POST", CHAT, chat())
    filling, decoding = await prefill.call(), await decode.call()
    await filling.begin(status, "content-length: 1000")
    await within(decoding.abandoned())  # before prefill has said why
    await filling.write(b"because")
    filling.close()
    answer = await client.answer()
    assert answer.status == status
    assert answer.json["error"]["message"] == f"the prefill worker answered {status}: because"
    assert answer.code.startswith("prefill_")


async def test_a_refusal_of_decode_ends_prefill(stage, pairs, outcomes):
    gateway, prefill, decode = await raw_pair(stage, pairs, **ONCE)
    client = await gateway.send("POST", CHAT, chat(stream=True))
    filling, decoding = await prefill.call(), await decode.call()
    await filling.begin_stream()
    await decoding.answer(422, b'{"error":"mine"}')
    answer = await client.answer()
    assert (answer.status, answer.json, answer.worker) == (422, {"error": "mine"}, decode.url)
    await within(filling.abandoned())
    assert await outcomes(gateway, prefill) == (0, 0)
    assert await outcomes(gateway, decode) == (1, 0)


async def test_a_stream_that_decode_breaks_off_ends_in_one_error(stage, pairs, outcomes):
    gateway, prefill, decode = await raw_pair(stage, pairs)
    client = await gateway.send("POST", CHAT, chat(stream=True))
    filling, decoding = await prefill.call(), await decode.call()
    await filling.begin_stream()
    await decoding.begin_stream()
    await decoding.event("one")
    await client.head()
    assert await client.chunk() == b"data: one\n\n"
    decoding.reset()
    rest = b""
    while piece := await client.chunk():
        rest += piece
    assert rest.count(b'"type":"stream_error"') == 1
    await within(filling.abandoned())
    await gateway.settled()
    assert await outcomes(gateway, prefill) == (0, 0)
    assert await outcomes(gateway, decode) == (0, 1)


async def test_a_stream_that_breaks_because_prefill_did_charges_prefill(stage, pairs, outcomes):
    gateway, prefill, decode = await raw_pair(stage, pairs)
    client = await gateway.send("POST", CHAT, chat(stream=True))
    filling, decoding = await prefill.call(), await decode.call()
    await filling.begin_stream()
    await decoding.begin_stream()
    await client.head()
    filling.reset()
    await until(lambda: gateway.worker(prefill).breaker.failures)
    decoding.reset()
    while await client.chunk():
        pass
    await gateway.settled()
    assert await outcomes(gateway, prefill) == (0, 1)
    assert await outcomes(gateway, decode) == (0, 0)


# --- retries


async def test_another_attempt_chooses_both_legs_anew_and_avoids_the_one_that_failed(stage, pairs, outcomes):
    bad, good = await stage.raw_engine(resets), await stage.raw_engine(answers())
    decode = await stage.raw_engine(answers())
    gateway = await pairs([bad, good], decode)
    while not bad.calls:  # the policy's first turn is random
        assert (await gateway.chat(chat())).status == 200
    assert len(bad.calls) == 1
    assert len(decode.calls) <= len(bad.calls) + len(good.calls)
    rooms = [call.json["bootstrap_room"] for engine in (bad, good) for call in engine.calls]
    assert len(set(rooms)) == len(rooms)
    assert await outcomes(gateway, bad) == (0, 1)
    scrape = await gateway.scrape()
    for kind in ("prefill", "decode"):
        assert scrape.value("smg_worker_retries_total", worker_type=kind) == 1


async def test_a_request_charges_a_leg_once_however_often_it_tried(stage, pairs, outcomes):
    prefill, decode = await stage.raw_engine(resets), await stage.raw_engine(hangs)
    gateway = await pairs(prefill, decode, retry_max_retries=3)
    assert (await gateway.chat(chat())).code == "prefill_request_failed"
    assert len(prefill.calls) == 3
    assert await outcomes(gateway, prefill) == (0, 1)


@pytest.mark.parametrize("leg", ["prefill", "decode"])
async def test_an_engine_s_own_failure_is_only_worth_asking_another(stage, pairs, leg):
    bad, good, other = (
        await stage.raw_engine(answers(500, b'{"error":"mine"}')),
        await stage.raw_engine(answers()),
        await stage.raw_engine(hangs if leg == "prefill" else answers()),
    )
    alone = await pairs(*((bad, other) if leg == "prefill" else (other, bad)))
    assert (await alone.chat(chat())).status == 500
    assert len(bad.calls) == 1
    other.script[:] = [answers()]
    both = await pairs(*(([bad, good], other) if leg == "prefill" else (other, [bad, good])))
    while len(bad.calls) == 1:
        assert (await both.chat(chat())).status == 200


async def test_what_is_the_client_s_mistake_is_not_tried_again(stage, pairs, outcomes):
    prefill, decode = await stage.raw_engine(answers(400)), await stage.raw_engine(hangs)
    gateway = await pairs(prefill, decode)
    assert (await gateway.chat(chat())).code == "prefill_bad_request"
    assert len(prefill.calls) == 1
    assert await outcomes(gateway, prefill) == (1, 0)
    assert (await gateway.scrape()).value("smg_pd_bootstrap_failures_total") == 0


async def test_a_leg_whose_breaker_is_open_is_missing(stage, pairs):
    prefill, decode = await stage.raw_engine(resets), await stage.raw_engine(hangs)
    gateway = await pairs(prefill, decode, cb_failure_threshold=1, **ONCE)
    assert (await gateway.chat(chat())).code == "prefill_request_failed"
    answer = await gateway.chat(chat())
    assert (answer.status, answer.code) == (503, "no_available_workers")
    assert "no prefill worker" in answer.json["error"]["message"]
    assert gateway.worker(decode).breaker.failures == 0


async def test_a_leg_that_meets_a_dying_connection_is_sent_once_more(stage, pairs):
    async def answers_and_closes(call):
        await call.answer()
        call.keeps_connection = False

    prefill, decode = await stage.raw_engine(answers_and_closes), await stage.raw_engine(answers())
    gateway = await pairs(prefill, decode, **ONCE)
    for _ in range(10):
        assert (await gateway.chat(chat())).status == 200
    assert prefill.connections == 10
    assert len(prefill.calls) == 10


# --- overload


@pytest.mark.parametrize("leg", ["prefill", "decode"])
async def test_a_leg_that_is_overloaded_sheds(stage, pairs, leg):
    engines = {"prefill": await stage.engine(), "decode": await stage.engine()}
    gateway = await pairs(*engines.values(), disable_load_monitoring=True)
    gateway.worker(engines[leg]).overloaded = True
    answer = await gateway.chat(chat(max_tokens=1))
    assert (answer.status, answer.code) == (503, "worker_overload_protection_shed")
    assert answer.headers["retry-after"] == "10"
    assert f"every {leg} worker" in answer.json["error"]["message"]
    scrape = await gateway.scrape()
    assert scrape.value("smg_worker_overload_shed_total", stage="selection") == 1
    assert scrape.value("smg_worker_retries_total") == 0
    gateway.worker(engines[leg]).overloaded = False
    assert (await gateway.chat(chat(max_tokens=1))).status == 200


async def test_loads_that_engines_report_shed_and_let_in_again(stage, pairs):
    prefill, decode = await stage.engine(), await stage.engine(max_running_requests=1, ttft_ms=600_000)
    gateway = await pairs(prefill, decode, worker_overload_waiting_requests=1, load_monitor_interval=0.05, queue_size=0)
    clients = [await gateway.send("POST", CHAT, chat(str(n), max_tokens=1)) for n in range(2)]
    await until(lambda: gateway.worker(decode).overloaded, "a flag at decode")
    assert (await gateway.chat(chat())).code == "worker_overload_protection_shed"
    for client in clients:
        await client.closed()
    await until(lambda: not gateway.worker(decode).overloaded, "the flag's end")


# --- clients that leave


async def assert_left(gateway, *engines):
    await gateway.settled()
    assert all(gateway.worker(engine).breaker.failures == 0 for engine in engines)


@pytest.mark.parametrize("begun", [(), ("prefill",), ("decode",)], ids=["no head", "prefill's head", "decode's head"])
@leaving
async def test_a_client_that_leaves_before_both_heads_ends_both_legs(stage, pairs, outcomes, leave, begun):
    gateway, prefill, decode = await raw_pair(stage, pairs)
    client = await gateway.send("POST", CHAT, chat())
    calls = {"prefill": await prefill.call(), "decode": await decode.call()}
    assert gateway.loads == [1, 1]
    for leg in begun:
        await calls[leg].begin(200, "content-type: application/json", "content-length: 1000")
        await calls[leg].write(b'{"half":')
    leave(client)
    for call in calls.values():
        await within(call.abandoned())
    await assert_left(gateway, prefill, decode)
    (line,) = gateway.access_lines()
    assert " status=499 " in line
    for engine in (prefill, decode):
        assert await outcomes(gateway, engine) == (0, 0)


@leaving
async def test_a_client_that_leaves_a_stream_ends_both_legs(stage, pairs, leave):
    gateway, prefill, decode = await raw_pair(stage, pairs)
    client = await gateway.send("POST", CHAT, chat(stream=True))
    filling, decoding = await prefill.call(), await decode.call()
    await filling.begin_stream()
    await decoding.begin_stream()
    await decoding.event("one")
    await client.head()
    assert await client.chunk()
    leave(client)
    for call in (filling, decoding):
        await within(call.abandoned())
    await assert_left(gateway, prefill, decode)


@leaving
async def test_a_client_that_leaves_a_stream_when_prefill_is_done_ends_decode(stage, pairs, drained, leave):
    gateway, prefill, decode = await raw_pair(stage, pairs)
    client = await gateway.send("POST", CHAT, chat(stream=True))
    filling, decoding = await prefill.call(), await decode.call()
    await filling.answer()
    await decoding.begin_stream()
    await client.head()
    await drained(gateway, prefill)
    leave(client)
    await within(decoding.abandoned())
    await assert_left(gateway, prefill, decode)


@leaving
async def test_a_client_that_leaves_while_a_refusal_is_read_ends_prefill(stage, pairs, leave):
    gateway, prefill, decode = await raw_pair(stage, pairs)
    client = await gateway.send("POST", CHAT, chat())
    filling, decoding = await prefill.call(), await decode.call()
    await filling.begin(500, "content-length: 1000")
    await within(decoding.abandoned())
    leave(client)
    await within(filling.abandoned())
    await gateway.settled()


@leaving
async def test_a_client_that_leaves_while_answers_are_joined_ends_prefill(stage, pairs, leave):
    gateway, prefill, decode = await raw_pair(stage, pairs)
    client = await gateway.send("POST", GENERATE, {"text": "hi", "return_logprob": True})
    filling, decoding = await prefill.call(), await decode.call()
    await decoding.answer()
    await filling.begin(200, "content-length: 1000")
    await filling.write(b"half")
    leave(client)
    await within(filling.abandoned())
    await assert_left(gateway, prefill, decode)


async def fill_every_buffer(call):
    """Write until nothing moves any more on the way to the client."""
    while True:
        async with asyncio.timeout(0.2):
            await call.chunk(b"x" * 50_000)


async def test_a_client_that_does_not_read_holds_decode_back_and_not_prefill(stage, pairs, drained):
    gateway, prefill, decode = await raw_pair(stage, pairs)
    client = await gateway.connect(receive_bytes=4096)
    await client.send("POST", CHAT, chat(stream=True))
    filling, decoding = await prefill.call(), await decode.call()
    await filling.begin_stream()
    await decoding.begin_stream()
    decoding.writer.transport.set_write_buffer_limits(high=0)
    with pytest.raises(TimeoutError):
        await fill_every_buffer(decoding)
    for _ in range(100):
        await filling.chunk(b"x" * 50_000)
    await filling.end_stream()
    await drained(gateway, prefill)
    await client.closed()
    await within(decoding.abandoned())


# --- the end


async def test_a_gateway_that_closes_leaves_nothing(stage, pairs):
    gateway, prefill, decode = await raw_pair(stage, pairs)
    ended = await gateway.send("POST", CHAT, chat(stream=True))
    draining, decoding = await prefill.call(), await decode.call()
    await draining.begin_stream()
    await decoding.begin_stream()
    await decoding.end_stream()
    await ended.answer()
    under_way = await gateway.send("POST", CHAT, chat())
    filling, decoding = await prefill.call(), await decode.call()
    assert gateway.loads == [2, 1]
    await gateway.gateway.close()
    assert gateway.loads == [0, 0]
    assert not gateway.gateway._pairs._legs._tasks
    for call in (draining, filling, decoding):
        await within(call.abandoned())
    assert await under_way.rest() == b""


async def test_what_drains_keeps_nobody_from_leaving(stage, pairs):
    """The client has its answer; only that counts as in flight."""
    gateway, prefill, decode = await raw_pair(stage, pairs)
    client = await gateway.send("POST", CHAT, chat())
    filling = await prefill.call()
    await filling.begin_stream()
    await (await decode.call()).answer()
    assert (await client.answer()).status == 200
    assert gateway.in_flight == 0
    assert gateway.loads == [1, 0]
    await filling.end_stream()
