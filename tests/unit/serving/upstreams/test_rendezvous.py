import asyncio
import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smg.errors import UpstreamError, UpstreamTimeout
from smg.protocol.requests import CompletionRequest, GenerateRequest
from smg.serving.call import Endpoint
from smg.serving.upstreams import rendezvous

COMPLETIONS = Endpoint("completions", "/v1/completions", CompletionRequest)
GENERATE = Endpoint("generate", "/generate", GenerateRequest)
LOGPROBS = b'{"text":"hi","return_logprob":true}'
BOTH = ("prefill", "decode")
SILENT = UpstreamTimeout("call_upstream_timeout", "the worker did not answer in time")


# --- what is sent


async def test_both_legs_get_the_request_and_one_meeting_point(new_pair):
    pair = new_pair(prefill={"url": "http://10.0.0.1:30000", "bootstrap_port": 9001})
    pair.send()
    prefill, decode = await pair.lines(*BOTH)
    assert prefill.body == decode.body
    assert prefill.body.startswith(b'{"model":"m","messages":[],"temperature":0.950,')
    body = json.loads(prefill.body)
    assert (body["bootstrap_host"], body["bootstrap_port"]) == ("10.0.0.1", 9001)
    assert 0 <= body["bootstrap_room"] < 2**63
    assert pair.loads == [1, 0]  # decode's is the dispatch loop's business
    prefill.answer()
    decode.answer()
    await pair.sending


async def test_every_request_has_a_room_of_its_own(new_pair):
    pair = new_pair()
    rooms = set()
    for _ in range(3):
        pair.send()
        for line in await pair.lines(*BOTH):
            rooms.add(json.loads(line.body)["bootstrap_room"])
            line.answer()
        await pair.sending
    assert len(rooms) == 3


async def test_an_ipv6_host_stands_in_brackets(new_pair):
    pair = new_pair(prefill={"url": "http://[2001:db8::1]:30000"})
    pair.send()
    _, decode = await pair.lines(*BOTH)
    assert json.loads(decode.body)["bootstrap_host"] == "[2001:db8::1]"
    pair.leave()


async def test_a_batch_has_a_room_for_each_item(new_pair):
    pair = new_pair()
    pair.send(b'{"model":"m","prompt":["a","b","c"]}', COMPLETIONS)
    prefill, decode = await pair.lines(*BOTH)
    assert prefill.body == decode.body
    assert len(set(json.loads(decode.body)["bootstrap_room"])) == 3
    pair.leave()


async def test_each_leg_learns_its_rank_and_decode_its_partner_s(new_pair):
    pair = new_pair(prefill={"dp_rank": 0}, decode={"dp_rank": 3})
    pair.send()
    prefill, decode = [json.loads(line.body) for line in await pair.lines(*BOTH)]
    assert prefill["routed_dp_rank"] == 0
    assert "disagg_prefill_dp_rank" not in prefill
    assert (decode["routed_dp_rank"], decode["disagg_prefill_dp_rank"]) == (3, 0)
    assert "data_parallel_rank" not in prefill | decode
    pair.leave()


async def test_the_client_is_told_who_answers(new_pair):
    pair = new_pair()
    assert pair.upstream.routed_line(pair.decode) == pair.decode.url.encode()


# --- an answer


@pytest.mark.parametrize("first", BOTH)
async def test_the_client_gets_decode_s_answer_when_both_have_begun(new_pair, turn, first):
    pair = new_pair()
    pair.send()
    lines = dict(zip(BOTH, await pair.lines(*BOTH), strict=True))
    other = lines["decode" if first == "prefill" else "prefill"]
    lines[first].answer(data=first.encode())
    await turn()
    assert not pair.sending.done()
    other.answer(data=b"decode" if other is lines["decode"] else b"prefill")
    reply = await pair.sending
    assert reply.take(1000) == b"decode"
    await turn()
    assert pair.outcomes(pair.prefill) == [1, 0]
    assert pair.outcomes(pair.decode) == [0, 0]  # the dispatch loop judges what it relays
    assert pair.sampled(pair.metrics.pd_prefill_duration_seconds) == {("pd", "m", "sglang"): 1}
    assert pair.sampled(pair.metrics.pd_ttft_seconds) == {}


async def test_a_plain_answer_is_complete_before_it_is_handed_on(new_pair, turn):
    pair = new_pair()
    pair.send()
    prefill, decode = await pair.lines(*BOTH)
    prefill.answer()
    decode.begin().piece(b'{"half":')
    await turn()
    assert not pair.sending.done()
    decode.end(b"1}")
    assert (await pair.sending).take(1000) == b'{"half":1}'


async def test_a_stream_is_handed_on_at_once_and_prefill_is_read_to_its_end_meanwhile(new_pair, turn):
    pair = new_pair()
    pair.send(stream=True)
    prefill, decode = await pair.lines(*BOTH)
    prefill.stream()
    decode.stream()
    reply = await pair.sending
    pieces = []
    pumping = asyncio.ensure_future(reply.pump(pieces.append))
    await turn()
    assert pair.sampled(pair.metrics.pd_ttft_seconds) == {}
    decode.piece(b"one")
    assert pair.sampled(pair.metrics.pd_ttft_seconds) == {("pd", "m", "sglang"): 1}
    decode.piece(b"two")
    prefill.piece(b"ignored")
    decode.end()
    await pumping
    reply.close()
    assert pieces == [b"one", b"two"]
    assert pair.sampled(pair.metrics.pd_ttft_seconds) == {("pd", "m", "sglang"): 1}
    await turn()
    assert pair.loads[0] == 1  # it has not ended
    assert pair.outcomes(pair.prefill) == [0, 0]
    prefill.end()
    await turn()
    assert pair.loads[0] == 0
    assert pair.outcomes(pair.prefill) == [1, 0]


async def test_load_of_prefill_ends_with_its_own_answer(new_pair, turn):
    pair = new_pair()
    pair.send(stream=True)
    prefill, decode = await pair.lines(*BOTH)
    prefill.answer()
    decode.stream()
    reply = await pair.sending
    await turn()
    assert pair.loads[0] == 0
    decode.end()
    reply.close()


async def test_prefill_s_answer_is_read_within_bounds(new_pair, turn):
    pair = new_pair()
    pair.send(stream=True)
    prefill, decode = await pair.lines(*BOTH)
    prefill.stream()
    decode.stream()
    reply = await pair.sending
    await turn()
    prefill.piece(b"x" * 1000)
    assert not prefill.gone
    prefill.piece(b"x")
    assert prefill.gone
    await turn()
    assert pair.outcomes(pair.prefill) == [0, 1]
    decode.end()
    reply.close()


# --- a leg that fails


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "prefill_bad_request"),
        (409, "prefill_upstream_error"),
        (429, "prefill_upstream_error"),
        (500, "prefill_internal_error"),
        (503, "prefill_unavailable"),
    ],
)
async def test_a_prefill_engine_that_refuses_ends_both(new_pair, turn, status, code):
    pair = new_pair()
    pair.send()
    prefill, decode = await pair.lines(*BOTH)
    prefill.begin(status)
    await turn()
    assert decode.gone  # at once, whatever else prefill has to say
    prefill.end(b'{"error":"why"}')
    error = await pair.error()
    assert (error.code, error.status, error.worker) == (code, status, pair.prefill)
    assert error.message == f'the prefill worker answered {status}: {{"error":"why"}}'
    assert error.retryable is (status in {429, 500, 503})
    bad = status in {500, 503}
    assert pair.outcomes(pair.prefill) == [status in {400, 409}, bad]
    assert pair.outcomes(pair.decode) == [0, 0]
    assert pair.counted(pair.metrics.pd_bootstrap_failures) == ({(): 1} if bad else {})


async def test_a_redirect_is_no_answer_of_a_prefill_engine(new_pair):
    pair = new_pair()
    pair.send()
    prefill, _ = await pair.lines(*BOTH)
    prefill.answer(302, b"")
    error = await pair.error()
    assert (error.code, error.status) == ("prefill_upstream_error", 502)
    assert error.message == "the prefill worker answered 302"


async def test_of_a_refusal_only_the_beginning_is_shown(new_pair):
    pair = new_pair()
    pair.send()
    prefill, _ = await pair.lines(*BOTH)
    prefill.begin(500).piece(b"a" * 1500).piece(b"b" * 10_000).end(b"c")
    error = await pair.error()
    assert error.message.removeprefix("the prefill worker answered 500: ") == "a" * 1500 + "b" * 500


async def test_a_refusal_that_does_not_end_is_not_waited_for(new_pair, monkeypatch):
    monkeypatch.setattr("smg.serving.upstreams.legs._REFUSAL_SECS", 0.0)
    pair = new_pair()
    pair.send()
    prefill, _ = await pair.lines(*BOTH)
    prefill.begin(503).piece(b"half a")
    error = await pair.error()
    assert (error.code, error.message) == ("prefill_unavailable", "the prefill worker answered 503: half a")
    assert prefill.gone


async def test_a_refusal_that_breaks_off_is_one_all_the_same(new_pair):
    pair = new_pair()
    pair.send()
    prefill, _ = await pair.lines(*BOTH)
    prefill.begin(400).piece(b"because")
    prefill.fail()
    error = await pair.error()
    assert (error.code, error.status) == ("prefill_bad_request", 400)


@pytest.mark.parametrize("leg", BOTH)
async def test_a_leg_that_is_lost_before_its_head_ends_both_and_is_to_blame(new_pair, leg):
    pair = new_pair()
    pair.send()
    lines = dict(zip(BOTH, await pair.lines(*BOTH), strict=True))
    lines[leg].fail()
    error = await pair.error()
    assert (error.code, error.status, error.retryable) == (f"{leg}_request_failed", 502, True)
    assert error.worker is getattr(pair, leg)
    assert all(line.gone for line in lines.values())
    assert pair.counted(pair.metrics.pd_bootstrap_failures) == {(): 1}
    assert pair.outcomes(pair.prefill) == [0, leg == "prefill"]


@pytest.mark.parametrize("leg", BOTH)
async def test_a_leg_that_is_late_has_timed_out(new_pair, leg):
    pair = new_pair()
    pair.send()
    lines = dict(zip(BOTH, await pair.lines(*BOTH), strict=True))
    lines[leg].fail(SILENT)
    error = await pair.error()
    assert isinstance(error, UpstreamTimeout)
    assert (error.code, error.status) == (f"{leg}_request_failed", 504)


@pytest.mark.parametrize("status", [400, 404, 422, 429, 500, 503])
@pytest.mark.parametrize("when", ["before prefill", "after prefill"])
async def test_a_refusal_of_decode_is_its_own_and_ends_prefill(new_pair, turn, status, when):
    pair = new_pair()
    pair.send()
    prefill, decode = await pair.lines(*BOTH)
    if when == "after prefill":
        prefill.stream()
        await turn()
    decode.answer(status, b'{"error":"mine"}')
    reply = await pair.sending
    assert (reply.status, reply.take(1000)) == (status, b'{"error":"mine"}')
    await turn()
    assert prefill.gone
    assert pair.outcomes(pair.prefill) == [0, 0]
    assert pair.counted(pair.metrics.pd_bootstrap_failures) == ({(): 1} if status >= 500 else {})


async def test_a_refusal_of_decode_is_complete_before_it_is_handed_on(new_pair, turn):
    pair = new_pair()
    pair.send()
    _, decode = await pair.lines(*BOTH)
    decode.begin(422).piece(b"half ")
    await turn()
    assert not pair.sending.done()
    decode.end(b"whole")
    assert (await pair.sending).take(1000) == b"half whole"


async def test_a_refusal_of_decode_that_breaks_off_is_decode_s_failure(new_pair, turn):
    pair = new_pair()
    pair.send()
    _, decode = await pair.lines(*BOTH)
    decode.begin(422).piece(b"half ")
    await turn()
    decode.fail()
    error = await pair.error()
    assert (error.code, error.worker) == ("decode_request_failed", pair.decode)


async def test_decode_s_own_answer_goes_before_prefill_s_failure(new_pair):
    pair = new_pair()
    pair.send()
    prefill, decode = await pair.lines(*BOTH)
    prefill.answer(400, b"no")
    decode.answer(400, b"mine")
    assert (await pair.sending).take(1000) == b"mine"


async def test_prefill_s_answer_breaking_off_before_decode_s_head_ends_both(new_pair, turn):
    pair = new_pair()
    pair.send()
    prefill, decode = await pair.lines(*BOTH)
    prefill.begin().piece()
    await turn()
    prefill.fail()
    error = await pair.error()
    assert (error.code, error.worker) == ("prefill_request_failed", pair.prefill)
    assert decode.gone
    assert pair.outcomes(pair.prefill) == [0, 1]


async def test_decode_s_plain_answer_breaking_off_before_prefill_s_head_ends_both(new_pair, turn, monkeypatch):
    monkeypatch.setattr(rendezvous, "_PATIENCE_SECS", 3600.0)  # it is noticed at once
    pair = new_pair()
    pair.send()
    prefill, decode = await pair.lines(*BOTH)
    decode.begin().piece()
    await turn()
    decode.fail()
    error = await pair.error()
    assert (error.code, error.worker) == ("decode_request_failed", pair.decode)
    assert prefill.gone
    assert pair.outcomes(pair.prefill) == [0, 0]


async def test_a_stream_of_decode_that_breaks_off_before_prefill_s_head_is_not_tried_again(new_pair, turn):
    pair = new_pair()
    pair.send(stream=True)
    prefill, decode = await pair.lines(*BOTH)
    decode.stream()
    decode.piece(b"one")
    await turn()
    decode.fail()
    reply = await pair.sending
    pieces = []
    with pytest.raises(UpstreamError):
        await reply.pump(pieces.append)
    reply.close()
    await turn()
    assert pieces == [b"one"]
    assert prefill.gone
    assert pair.outcomes(pair.prefill) == [0, 0]


async def test_of_two_answers_that_break_off_together_prefill_s_is_why(new_pair, turn):
    pair = new_pair()
    pair.send()
    prefill, decode = await pair.lines(*BOTH)
    prefill.begin()
    await turn()
    prefill.fail()
    decode.begin().fail()
    assert (await pair.error()).worker is pair.prefill


async def test_decode_s_plain_answer_breaking_off_is_decode_s_fault(new_pair, turn):
    pair = new_pair()
    pair.send()
    prefill, decode = await pair.lines(*BOTH)
    prefill.begin()
    decode.begin().piece()
    await turn()
    decode.fail()
    error = await pair.error()
    assert (error.code, error.status, error.worker) == ("decode_request_failed", 502, pair.decode)
    assert prefill.gone


async def test_an_answer_of_decode_that_is_too_large_is_refused(new_pair):
    pair = new_pair()
    pair.send()
    prefill, decode = await pair.lines(*BOTH)
    prefill.begin()
    decode.begin(length=1001)
    error = await pair.error()
    assert (error.code, error.status, error.worker) == ("upstream_response_too_large", 502, pair.decode)


@pytest.mark.parametrize("kind", ["plain", "stream"])
async def test_decode_breaking_off_after_prefill_did_is_prefill_s_fault(new_pair, turn, kind):
    pair = new_pair()
    pair.send(stream=kind == "stream")
    prefill, decode = await pair.lines(*BOTH)
    prefill.begin()
    (decode.begin if kind == "plain" else decode.stream)()
    await turn()
    prefill.fail()
    await turn()
    assert not decode.gone  # it may have all it needs
    assert pair.outcomes(pair.prefill) == [0, 1]
    decode.fail()
    if kind == "plain":
        error = await pair.error()
        assert error.code == "prefill_request_failed"
    else:
        reply = await pair.sending
        with pytest.raises(UpstreamError) as caught:
            await reply.pump(lambda _: None)
        error = caught.value
    assert error.worker is pair.prefill
    assert pair.outcomes(pair.prefill) == [0, 1]


async def test_decode_breaking_off_alone_is_not_prefill_s_fault(new_pair, turn):
    pair = new_pair()
    pair.send(stream=True)
    prefill, decode = await pair.lines(*BOTH)
    prefill.stream()
    decode.stream()
    reply = await pair.sending
    await turn()
    decode.fail()
    assert reply.broken.worker is None  # the dispatch loop blames who answers
    await turn()
    assert prefill.gone


async def test_a_client_may_leave_a_stream_whose_prefill_broke_off(new_pair, turn):
    pair = new_pair()
    pair.send(stream=True)
    prefill, decode = await pair.lines(*BOTH)
    prefill.stream()
    decode.stream()
    reply = await pair.sending
    await turn()
    prefill.fail()
    await turn()
    reply.close()
    await turn()
    assert decode.gone
    assert pair.outcomes(pair.prefill) == [0, 1]


async def test_decode_may_well_end_after_prefill_broke_off(new_pair, turn):
    pair = new_pair()
    pair.send()
    prefill, decode = await pair.lines(*BOTH)
    prefill.begin()
    decode.begin()
    await turn()
    prefill.fail()
    await turn()
    decode.end(b"whole")
    assert (await pair.sending).take(1000) == b"whole"
    assert pair.outcomes(pair.prefill) == [0, 1]


async def test_a_call_charges_prefill_once_however_often_it_fails(new_pair, turn):
    pair = new_pair()
    for _ in range(3):
        call = pair.call
        pair.send()
        if call is not None:
            pair.call.charged = call.charged  # a later attempt of the same call
        prefill, _ = await pair.lines(*BOTH)
        prefill.fail()
        await pair.error()
    assert pair.outcomes(pair.prefill) == [0, 1]


async def test_decode_that_is_done_does_not_wait_for_a_silent_prefill_for_ever(new_pair, monkeypatch):
    monkeypatch.setattr(rendezvous, "_PATIENCE_SECS", 0.0)
    pair = new_pair()
    pair.send()
    prefill, decode = await pair.lines(*BOTH)
    decode.answer(data=b"whole")
    assert (await pair.sending).take(1000) == b"whole"
    await asyncio.sleep(0)
    assert prefill.gone
    assert pair.outcomes(pair.prefill) == [0, 0]


async def test_decode_that_is_not_done_waits_on(new_pair, turn, monkeypatch):
    monkeypatch.setattr(rendezvous, "_PATIENCE_SECS", 0.0)
    pair = new_pair()
    pair.send()
    prefill, decode = await pair.lines(*BOTH)
    decode.begin().piece()
    await turn()
    assert not pair.sending.done()
    prefill.answer()
    decode.end()
    await pair.sending


@pytest.mark.parametrize("leg", BOTH)
async def test_a_fault_of_the_gateway_s_own_is_no_reason_to_hang(new_pair, turn, monkeypatch, caplog, leg):
    pair = new_pair()
    send_body = pair.http.send_body

    async def broken(worker, *rest):
        if worker.id == leg:
            raise RuntimeError("a mistake")
        return await send_body(worker, *rest)

    monkeypatch.setattr(pair.http, "send_body", broken)
    pair.send()
    with pytest.raises(RuntimeError, match="a mistake"):
        await pair.sending
    await turn()
    assert pair.loads == [0, 0]
    assert pair.outcomes(pair.prefill) == [0, 0]
    assert ("a prefill leg failed inside the gateway" in caplog.text) is (leg == "prefill")


# --- a client that leaves


@pytest.mark.parametrize("begun", [(), ("prefill",), ("decode",), BOTH])
async def test_a_client_that_leaves_before_the_answer_ends_both(new_pair, turn, begun):
    pair = new_pair()
    pair.send()
    lines = dict(zip(BOTH, await pair.lines(*BOTH), strict=True))
    for leg in begun:
        lines[leg].begin().piece()
    await turn()
    pair.leave()
    with pytest.raises(asyncio.CancelledError):
        await pair.sending
    await turn()
    assert all(line.gone for line in lines.values())
    assert pair.failures == [0, 0]
    assert pair.outcomes(pair.prefill) == [0, 0]


async def test_a_client_that_leaves_at_the_very_beginning_ends_both(new_pair, turn):
    pair = new_pair()
    pair.send()
    await asyncio.sleep(0)
    pair.leave()
    await turn()
    assert all(line.gone for lines in pair.http.lines.values() for line in lines)
    assert pair.loads == [0, 0]


async def test_a_leg_that_is_cancelled_before_it_runs_is_no_load(new_pair, turn):
    pair = new_pair()
    way = pair.upstream._ways["rendezvous"]
    filling = rendezvous.Filling(pair.prefill, None, keeps_body=False)
    filling.start(pair.upstream._legs, way._verdicts, way._accounts, b"{}", None)
    assert pair.loads == [1, 0]
    filling.cancel()
    await turn()
    assert pair.loads == [0, 0]
    assert pair.http.lines == {}


async def test_a_client_that_leaves_a_stream_ends_prefill_too(new_pair, turn):
    pair = new_pair()
    pair.send(stream=True)
    prefill, decode = await pair.lines(*BOTH)
    prefill.stream()
    decode.stream()
    reply = await pair.sending
    await turn()
    reply.close()  # what the dispatch loop does
    await turn()
    assert prefill.gone
    assert decode.gone
    assert pair.outcomes(pair.prefill) == [0, 0]


async def test_a_client_that_leaves_while_a_refusal_is_read_ends_it(new_pair, turn):
    pair = new_pair()
    pair.send()
    prefill, decode = await pair.lines(*BOTH)
    prefill.begin(500)
    await turn()
    pair.leave()
    await turn()
    assert prefill.gone
    assert decode.gone


async def test_a_close_ends_what_still_drains(new_pair, turn):
    pair = new_pair()
    pair.send(stream=True)
    prefill, decode = await pair.lines(*BOTH)
    prefill.stream()
    decode.stream().end()
    await pair.sending
    await turn()
    assert not prefill.gone
    await pair.upstream.close()
    assert prefill.gone
    assert pair.loads == [0, 0]


@pytest.mark.parametrize("moment", ["asked", "refused", "met"])
async def test_a_close_ends_a_request_that_nobody_has_cancelled(new_pair, turn, moment):
    pair = new_pair()
    pair.send()
    prefill, decode = await pair.lines(*BOTH)
    if moment == "refused":
        prefill.begin(500)
    elif moment == "met":
        prefill.begin()
    await turn()
    await pair.upstream.close()
    with pytest.raises(asyncio.CancelledError):
        await pair.sending
    assert prefill.gone
    assert decode.gone


# --- log probabilities


def logprobs(*entries):
    return json.dumps({"text": "x", "meta_info": {"input_token_logprobs": list(entries)}}).encode()


async def test_a_native_answer_gets_the_prompt_s_log_probabilities_from_prefill(new_pair):
    pair = new_pair()
    pair.send(LOGPROBS, GENERATE)
    prefill, decode = await pair.lines(*BOTH)
    prefill.answer(data=logprobs([1]))
    decode.answer(data=logprobs([2]))
    assert json.loads((await pair.sending).take(1000))["meta_info"]["input_token_logprobs"] == [[1], [2]]
    assert pair.outcomes(pair.prefill) == [1, 0]


@pytest.mark.parametrize("last", BOTH)
async def test_both_answers_are_waited_for_then(new_pair, turn, last):
    pair = new_pair()
    pair.send(LOGPROBS, GENERATE)
    lines = dict(zip(BOTH, await pair.lines(*BOTH), strict=True))
    for leg, line in lines.items():
        line.begin().piece(logprobs([leg]))
        if leg != last:
            line.end()
    await turn()
    assert not pair.sending.done()
    lines[last].end()
    answer = json.loads((await pair.sending).take(1000))
    assert answer["meta_info"]["input_token_logprobs"] == [["prefill"], ["decode"]]


@pytest.mark.parametrize("decode_is", ["silent", "done"])
async def test_without_prefill_s_answer_there_is_none_then(new_pair, turn, decode_is):
    pair = new_pair()
    pair.send(LOGPROBS, GENERATE)
    prefill, decode = await pair.lines(*BOTH)
    prefill.begin()
    decode.begin()
    if decode_is == "done":
        decode.end(logprobs([2]))
    await turn()
    prefill.fail()
    error = await pair.error()
    assert (error.code, error.worker) == ("prefill_request_failed", pair.prefill)
    assert decode.over
    assert pair.outcomes(pair.prefill) == [0, 1]


async def test_prefill_may_have_failed_by_the_time_that_answers_are_joined(new_pair, turn):
    pair = new_pair()
    pair.send(LOGPROBS, GENERATE)
    prefill, decode = await pair.lines(*BOTH)
    prefill.begin()
    await turn()
    prefill.fail()
    decode.begin()
    assert (await pair.error()).worker is pair.prefill
    assert decode.gone


async def test_decode_that_breaks_off_while_answers_are_joined_does_not_wait_for_prefill(new_pair, turn):
    pair = new_pair()
    pair.send(LOGPROBS, GENERATE)
    prefill, decode = await pair.lines(*BOTH)
    prefill.begin()
    decode.begin()
    await turn()
    decode.fail()
    error = await pair.error()
    assert (error.code, error.worker) == ("decode_request_failed", pair.decode)
    assert prefill.gone


async def test_an_answer_of_prefill_that_is_too_large_is_refused_then(new_pair, turn):
    pair = new_pair()
    pair.send(LOGPROBS, GENERATE)
    prefill, decode = await pair.lines(*BOTH)
    decode.begin()
    prefill.begin(length=1001)
    error = await pair.error()
    assert (error.code, error.worker) == ("upstream_response_too_large", pair.prefill)


@pytest.mark.parametrize(
    ("body", "stream"), [(b'{"text":"hi"}', False), (b'{"text":"hi","return_logprob":true,"stream":true}', True)]
)
async def test_other_native_answers_are_decode_s_alone(new_pair, body, stream):
    pair = new_pair()
    pair.send(body, GENERATE, stream=stream)
    prefill, decode = await pair.lines(*BOTH)
    prefill.answer(data=logprobs([1]))
    decode.answer(data=logprobs([2]))
    assert (await pair.sending).take(1000) == logprobs([2])


async def test_a_client_that_leaves_while_the_answers_are_joined_ends_both(new_pair, turn):
    pair = new_pair()
    pair.send(LOGPROBS, GENERATE)
    prefill, decode = await pair.lines(*BOTH)
    prefill.begin()
    decode.answer(data=logprobs([2]))
    await turn()
    pair.leave()
    await turn()
    assert prefill.gone


# --- whatever happens, in whatever order

STEPS = st.sampled_from(
    [
        ("prefill", "head"),
        ("prefill", "refuse"),
        ("prefill", "piece"),
        ("prefill", "end"),
        ("prefill", "fail"),
        ("decode", "head"),
        ("decode", "stream"),
        ("decode", "refuse"),
        ("decode", "piece"),
        ("decode", "end"),
        ("decode", "fail"),
        ("client", "leave"),
        ("loop", "turn"),
    ]
)


def perform(pair, who, what):
    """Do a step if it is possible now; whether it was a failure of a leg."""
    if who == "client":
        pair.leave()
        return False
    line = pair.line(who)
    if line.gone or (line.reply is None) != (what in {"head", "stream", "refuse", "fail"} and line.reply is None):
        return False
    if what in {"head", "stream", "refuse"}:
        if line.reply is None:
            {"head": line.begin, "stream": line.stream, "refuse": lambda: line.begin(503)}[what]()
        return what == "refuse"
    if line.reply is not None and line.reply.complete:
        return False
    {"piece": line.piece, "end": line.end, "fail": line.fail}[what]()
    return what == "fail"


@settings(max_examples=300)
@given(st.lists(STEPS, max_size=12), st.booleans(), st.booleans())
def test_nothing_is_left_whatever_happens_in_whatever_order(pair_kind, calm, turn, steps, joins, reads):
    async def story():
        pair = pair_kind()
        failed = Counter()
        pair.send(LOGPROBS, GENERATE) if joins else pair.send()
        await turn()
        for who, what in steps:
            if who == "loop":
                await turn()
            else:
                failed[who] += perform(pair, who, what)
        await turn()
        reply = error = None
        if pair.sending.done() and not pair.sending.cancelled():
            error = pair.sending.exception()
            reply = None if error else pair.sending.result()
        else:
            pair.leave()  # a client that has had enough
            await turn()
            assert pair.sending.cancelled() or pair.sending.done()
            if not pair.sending.cancelled() and pair.sending.exception() is None:
                reply = pair.sending.result()
        if error is not None:
            assert isinstance(error, UpstreamError)
            assert failed[error.worker.id]
        if reply is not None:
            assert reply.status == 503 or not reply.complete or pair.line("decode").reply is reply
            reading = asyncio.ensure_future(reply.pump(lambda _: None)) if reads else None
            await turn()
            reply.close()
            if reading is not None:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
        await pair.upstream.close()
        await turn()
        assert pair.at_rest
        assert pair.outcomes(pair.decode) == [0, 0]
        heard = pair.outcomes(pair.prefill)
        assert sum(heard) <= 1
        assert heard[1] <= failed["prefill"]

    async def calmly():
        async with calm():
            await story()

    asyncio.run(calmly())
