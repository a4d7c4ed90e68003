"""Pairs of engines that hand a cache on: prefill first, then decode, over real connections."""

import pytest

from support.bodies import CHAT, MODEL, chat
from support.client import LEAVING
from support.raw_engine import answers, breaks_off, hangs, resets, stalls, streams
from support.waiting import until, within

ONCE = {"disable_retries": True}
SHORT_SECS = 0.5
PARAMS = {"remote_block_ids": [1, 2], "remote_engine_id": "e1"}
FILLED = answers(200, b'{"kv_transfer_params":{"remote_block_ids":[1,2],"remote_engine_id":"e1"}}')
leaving = pytest.mark.parametrize("leave", LEAVING.values(), ids=LEAVING)


async def raw_pair(stage, transfers, **settings):
    """A gateway in front of two engines whose every step is the test's."""
    prefill, decode = await stage.raw_engine(), await stage.raw_engine()
    return await transfers(prefill, decode, **settings), prefill, decode


async def test_simulated_engines_are_recognised_and_answer_together_as_one_does_alone(stage, pairs):
    prefill, decode, alone = await stage.engines(3, engine="vllm")
    gateway = await pairs(prefill, decode)
    single = await stage.gateway(alone)
    body = chat(max_tokens=5)
    answer, expected = await gateway.chat(body), await single.chat(body)
    assert (answer.status, answer.worker) == (200, decode.url)
    assert answer.json["choices"] == expected.json["choices"]
    assert [engine.machine.seen[CHAT] for engine in (prefill, decode)] == [1, 1]
    assert prefill.machine.scheduler.generated_tokens == 1
    stream = await gateway.chat(chat(max_tokens=5, stream=True))
    assert stream.events[-1] == "[DONE]"
    scrape = await gateway.scrape()
    assert scrape.value("smg_pd_kv_connector_mode_total", mode="passthrough") == 2
    assert scrape.value("smg_pd_prefill_duration_seconds_count", runtime="vllm") == 2
    assert scrape.value("smg_pd_ttft_seconds_count", runtime="vllm") == 1


async def test_decode_gets_the_original_and_what_prefill_returned(stage, transfers):
    prefill, decode = await stage.raw_engine(FILLED), await stage.raw_engine(streams("one", "[DONE]"))
    gateway = await transfers(prefill, decode)
    body = chat(stream=True, max_tokens=9, stream_options={"include_usage": True}, vendor=1)
    answer = await gateway.chat(body)
    assert (answer.events, answer.worker) == (["one", "[DONE]"], decode.url)
    (filling,), (decoding,) = prefill.calls, decode.calls
    assert filling.json["max_completion_tokens"] == 1
    assert filling.json["stream"] is False
    assert filling.json["kv_transfer_params"] == {"do_remote_decode": True, "do_remote_prefill": False}
    assert decoding.json["kv_transfer_params"] == PARAMS
    assert decoding.json["stream_options"] == {"include_usage": True}
    assert decoding.json["vendor"] == filling.json["vendor"] == 1


@pytest.mark.parametrize(
    ("path", "body", "limit"),
    [
        ("/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}, "max_tokens"),
        ("/v1/responses", {"max_output_tokens": 9, "input": "x"}, "max_output_tokens"),
        ("/v1/responses", {"input": "x"}, "max_output_tokens"),
    ],
)
async def test_the_newer_apis_are_split_as_well(stage, transfers, path, body, limit):
    prefill, decode = await stage.raw_engine(FILLED), await stage.raw_engine(answers())
    gateway = await transfers(prefill, decode)
    answer = await gateway.post(path, {"model": MODEL, **body})
    assert (answer.status, answer.worker) == (200, decode.url)
    (filling,), (decoding,) = prefill.calls, decode.calls
    assert (filling.path, decoding.path) == (path, path)
    assert filling.json[limit] == 1
    assert ("max_tokens" in filling.json) == (limit == "max_tokens")
    assert decoding.json == {"model": MODEL, **body, "kv_transfer_params": PARAMS}


async def test_tokens_are_counted_by_prefill_alone(stage, transfers):
    prefill, decode = await stage.raw_engine(answers(200, b'{"input_tokens":3}')), await stage.raw_engine()
    gateway = await transfers(prefill, decode)
    body = {"model": MODEL, "messages": [{"role": "user", "content": "x"}]}
    answer = await gateway.post("/v1/messages/count_tokens", body)
    assert (answer.status, answer.json, answer.worker) == (200, {"input_tokens": 3}, prefill.url)
    assert prefill.calls[0].json == body
    assert decode.calls == []


async def test_interactions_are_not_split(stage, transfers):
    gateway = await transfers(await stage.raw_engine(), await stage.raw_engine())
    answer = await gateway.post("/v1/interactions", {"model": MODEL, "input": "x"})
    assert (answer.status, answer.code) == (501, "interactions_not_supported")


@pytest.mark.parametrize("status", [400, 503])
async def test_a_prefill_engine_that_refuses_spares_decode(stage, transfers, outcomes, status):
    prefill, decode = await stage.raw_engine(answers(status, b"because")), await stage.raw_engine()
    gateway = await transfers(prefill, decode, **ONCE)
    answer = await gateway.chat(chat())
    assert (answer.status, answer.code) == (status, "prefill_upstream_error")
    assert decode.calls == []
    assert await outcomes(gateway, prefill) == ((1, 0) if status == 400 else (0, 1))
    assert await outcomes(gateway, decode) == (0, 0)


@pytest.mark.parametrize("failure", [resets, breaks_off, hangs, stalls])
async def test_a_prefill_answer_that_does_not_come_whole_spares_decode(stage, transfers, outcomes, failure):
    prefill, decode = await stage.raw_engine(failure), await stage.raw_engine()
    late = failure in {hangs, stalls}
    gateway = await transfers(prefill, decode, **ONCE, request_timeout_secs=SHORT_SECS if late else 60.0)
    answer = await gateway.chat(chat())
    assert (answer.status, answer.code) == (504 if late else 502, "prefill_request_failed")
    assert decode.calls == []
    assert await outcomes(gateway, prefill) == (0, 1)


@pytest.mark.parametrize("failure", [resets, breaks_off, hangs, stalls])
async def test_a_decode_answer_that_does_not_come_whole_is_decode_s_failure(stage, transfers, outcomes, failure):
    prefill, decode = await stage.raw_engine(FILLED), await stage.raw_engine(failure)
    late = failure in {hangs, stalls}
    gateway = await transfers(prefill, decode, **ONCE, request_timeout_secs=SHORT_SECS if late else 60.0)
    answer = await gateway.chat(chat())
    assert (answer.status, answer.code) == (504 if late else 502, "decode_request_failed")
    assert await outcomes(gateway, prefill) == (1, 0)
    assert await outcomes(gateway, decode) == (0, 1)


async def test_another_attempt_begins_with_prefill_again(stage, transfers):
    prefill = await stage.raw_engine(FILLED)
    decode = await stage.raw_engine(answers(503), answers(200, b'{"second":true}'))
    gateway = await transfers(prefill, decode)
    assert (await gateway.chat(chat())).json == {"second": True}
    assert [len(engine.calls) for engine in (prefill, decode)] == [2, 2]


async def test_several_choices_are_decode_s_alone(stage, transfers):
    prefill, decode = await stage.raw_engine(), await stage.raw_engine(answers())
    gateway = await transfers(prefill, decode)
    assert (await gateway.chat(chat(n=2))).status == 200
    assert prefill.calls == []
    assert decode.calls[0].json["n"] == 2


async def test_load_follows_the_legs(stage, transfers):
    gateway, prefill, decode = await raw_pair(stage, transfers)
    client = await gateway.send("POST", CHAT, chat())
    filling = await prefill.call()
    assert gateway.loads == [1, 1]  # decode has been chosen, and will have it
    await FILLED(filling)
    decoding = await decode.call()
    assert gateway.loads == [0, 1]
    await decoding.answer()
    assert (await client.answer()).status == 200
    await gateway.settled()


@leaving
@pytest.mark.parametrize("moment", ["prefill asked", "prefill begun", "decode asked", "decode begun"])
async def test_a_client_that_leaves_ends_the_leg_under_way(stage, transfers, leave, moment):
    gateway, prefill, decode = await raw_pair(stage, transfers)
    client = await gateway.send("POST", CHAT, chat())
    call = await prefill.call()
    if moment.startswith("decode"):
        await FILLED(call)
        call = await decode.call()
    if moment.endswith("begun"):
        await call.begin(200, "content-length: 1000")
        await call.write(b"half")
    leave(client)
    await within(call.abandoned())
    await gateway.settled()
    assert len(decode.calls) == moment.startswith("decode")
    assert [gateway.worker(engine).breaker.failures for engine in (prefill, decode)] == [0, 0]
    (line,) = gateway.access_lines()
    assert " status=499 " in line


async def test_a_decode_worker_that_is_removed_while_prefill_works_answers_and_leaves_nothing(stage, transfers):
    gateway, prefill, decode = await raw_pair(stage, transfers)
    client = await gateway.send("POST", CHAT, chat())
    filling = await prefill.call()
    worker = gateway.worker(decode)
    assert (await gateway.ask("DELETE", f"/workers/{worker.id}")).status == 202
    await until(lambda: len(gateway.workers) == 1, "the worker's removal")
    await FILLED(filling)
    await (await decode.call()).answer()
    assert (await client.answer()).status == 200
    upstream = gateway.gateway.upstream
    assert worker.id not in upstream._links
    await until(lambda: not upstream._retired, "the end of its connections")
