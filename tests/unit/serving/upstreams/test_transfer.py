import asyncio
import json

import pytest

from smg.errors import UpstreamTimeout
from smg.protocol.requests import CompletionRequest
from smg.serving.call import Endpoint

COMPLETIONS = Endpoint("completions", "/v1/completions", CompletionRequest)
PARAMS = b'{"kv_transfer_params":{"blocks":[1,2.50]}}'
NIXL = {"kv_connector": "NixlConnector"}
MOONCAKE = {"kv_connector": "MooncakeConnector", "kv_engine_id": "e1"}


def sent(line):
    return json.loads(line.body)


async def test_prefill_gets_a_copy_first_and_decode_the_original_then(new_pair, turn):
    pair = new_pair("vllm", prefill=NIXL)
    pair.send(b'{"model":"m","messages":[],"stream":true,"max_tokens":50,"temperature":0.950}', stream=True)
    (prefill,) = await pair.lines("prefill")
    assert "decode" not in pair.http.lines
    assert sent(prefill) == {
        "model": "m",
        "messages": [],
        "stream": False,
        "max_tokens": 1,
        "temperature": 0.95,
        "kv_transfer_params": {"do_remote_decode": True, "do_remote_prefill": False},
    }
    assert pair.loads == [1, 0]
    prefill.answer(data=PARAMS)
    (decode,) = await pair.lines("decode")
    assert decode.body == (
        b'{"model":"m","messages":[],"stream":true,"max_tokens":50,"temperature":0.950,'
        b'"kv_transfer_params":{"blocks":[1,2.50]}}'
    )
    assert pair.loads == [0, 0]  # prefill is done
    decode.stream()
    reply = await pair.sending
    pumping = asyncio.ensure_future(reply.pump(lambda _: None))
    await turn()
    decode.piece()
    assert pair.sampled(pair.metrics.pd_ttft_seconds) == {("pd", "m", "vllm"): 1}
    decode.end()
    await pumping
    assert pair.outcomes(pair.prefill) == [1, 0]
    assert pair.sampled(pair.metrics.pd_prefill_duration_seconds) == {("pd", "m", "vllm"): 1}
    assert pair.counted(pair.metrics.pd_kv_connector_mode) == {("nixl",): 1}
    assert pair.counted(pair.metrics.pd_kv_transfer_failures) == {}


async def test_a_plain_answer_is_complete_before_it_is_handed_on(new_pair, turn):
    pair = new_pair("vllm")
    pair.send()
    (prefill,) = await pair.lines("prefill")
    prefill.answer()
    (decode,) = await pair.lines("decode")
    decode.begin().piece(b"half ")
    await turn()
    assert not pair.sending.done()
    decode.end(b"whole")
    assert (await pair.sending).take(1000) == b"half whole"


@pytest.mark.parametrize(
    ("registered", "mode", "failed"),
    [(NIXL, "nixl", True), ({"kv_connector": "MooncakeConnector"}, "mooncake", True), ({}, "passthrough", False)],
)
async def test_without_parameters_decode_gets_the_original(new_pair, registered, mode, failed):
    pair = new_pair("vllm", prefill=registered)
    body = b'{"model":"m","messages":[]}'
    pair.send(body)
    (prefill,) = await pair.lines("prefill")
    prefill.answer(data=b'{"kv_transfer_params":null}')
    (decode,) = await pair.lines("decode")
    assert decode.body is body
    decode.answer()
    await pair.sending
    assert pair.counted(pair.metrics.pd_kv_connector_mode) == {(mode,): 1}
    assert pair.counted(pair.metrics.pd_kv_transfer_failures) == ({(): 1} if failed else {})


async def test_a_connector_that_is_not_known_passes_on_what_comes(new_pair):
    pair = new_pair("vllm", prefill={"kv_connector": "LMCacheConnectorV1"})
    pair.send()
    (prefill,) = await pair.lines("prefill")
    assert "kv_transfer_params" not in sent(prefill)
    prefill.answer(data=PARAMS)
    (decode,) = await pair.lines("decode")
    assert sent(decode)["kv_transfer_params"] == {"blocks": [1, 2.5]}
    pair.leave()


async def test_mooncake_s_transfers_have_ids_of_their_own(new_pair):
    pair = new_pair("vllm", prefill=MOONCAKE | {"url": "http://[::1]:8000", "bootstrap_port": 9001})
    ids = []
    for _ in range(2):
        pair.send()
        (prefill,) = await pair.lines("prefill")
        tag = sent(prefill)["kv_transfer_params"]
        ids.append(tag["transfer_id"])
        prefill.answer()
        (decode,) = await pair.lines("decode")
        assert sent(decode)["kv_transfer_params"] == {
            "do_remote_decode": False,
            "do_remote_prefill": True,
            "transfer_id": ids[-1],
            "remote_engine_id": "e1",
            "remote_bootstrap_addr": "http://[::1]:9001",
        }
        decode.answer()
        await pair.sending
    assert ids == ["xfer-id0", "xfer-id1"]


@pytest.mark.parametrize(
    ("body", "endpoint"),
    [
        (b'{"model":"m","messages":[],"n":2}', None),
        (b'{"model":"m","prompt":"a","n":2}', COMPLETIONS),
        (b'{"model":"m","prompt":["a","b"]}', COMPLETIONS),
    ],
)
async def test_several_generations_are_decode_s_alone(new_pair, body, endpoint):
    """One cache cannot be handed to all of them."""
    pair = new_pair("vllm", prefill=NIXL)
    pair.send(body, endpoint) if endpoint else pair.send(body)
    (decode,) = await pair.lines("decode")
    assert decode.body == body
    assert "prefill" not in pair.http.lines
    assert pair.loads == [0, 0]
    decode.answer()
    await pair.sending
    assert pair.counted(pair.metrics.pd_kv_connector_mode) == {}


async def test_a_list_of_one_prompt_is_one_generation(new_pair):
    pair = new_pair("vllm")
    pair.send(b'{"model":"m","prompt":["a"]}', COMPLETIONS)
    (prefill,) = await pair.lines("prefill")
    assert sent(prefill)["max_tokens"] == 1
    pair.leave()


@pytest.mark.parametrize("status", [302, 400, 404, 429, 500, 503])
async def test_a_prefill_engine_that_refuses_spares_decode(new_pair, status):
    pair = new_pair("vllm")
    pair.send()
    (prefill,) = await pair.lines("prefill")
    prefill.answer(status, b"why")
    error = await pair.error()
    assert error.code == "prefill_upstream_error"
    assert error.status == (502 if status == 302 else status)
    assert error.worker is pair.prefill
    assert error.message == f"the prefill worker answered {status}: why"
    assert "decode" not in pair.http.lines
    bad = status in {302, 500, 503}
    assert pair.outcomes(pair.prefill) == [not bad and status != 429, bad]


async def test_a_prefill_engine_that_is_lost_spares_decode(new_pair, turn):
    pair = new_pair("vllm")
    for begins in (False, True):
        pair.send()
        (prefill,) = await pair.lines("prefill")
        if begins:
            prefill.begin().piece()
            await turn()
        prefill.fail()
        error = await pair.error()
        assert (error.code, error.status, error.worker) == ("prefill_request_failed", 502, pair.prefill)
    assert "decode" not in pair.http.lines
    assert pair.outcomes(pair.prefill) == [0, 2]


async def test_a_prefill_engine_that_is_late_has_timed_out(new_pair):
    pair = new_pair("vllm")
    pair.send()
    (prefill,) = await pair.lines("prefill")
    prefill.fail(UpstreamTimeout("call_upstream_timeout", "late"))
    error = await pair.error()
    assert isinstance(error, UpstreamTimeout)
    assert (error.code, error.status) == ("prefill_request_failed", 504)


async def test_prefill_s_answer_is_read_within_bounds(new_pair):
    pair = new_pair("vllm")
    pair.send()
    (prefill,) = await pair.lines("prefill")
    prefill.begin(length=1001)
    error = await pair.error()
    assert (error.code, error.worker) == ("upstream_response_too_large", pair.prefill)


async def test_decode_s_failure_is_decode_s_alone(new_pair, turn):
    pair = new_pair("vllm")
    for begins in (False, True):
        pair.send()
        (prefill,) = await pair.lines("prefill")
        prefill.answer()
        (decode,) = await pair.lines("decode")
        if begins:
            decode.begin()
            await turn()
        decode.fail()
        error = await pair.error()
        assert (error.code, error.status, error.worker) == ("decode_request_failed", 502, pair.decode)
    assert pair.outcomes(pair.prefill) == [2, 0]


async def test_decode_s_refusal_is_its_own_answer(new_pair):
    pair = new_pair("vllm")
    pair.send()
    (prefill,) = await pair.lines("prefill")
    prefill.answer()
    (decode,) = await pair.lines("decode")
    decode.answer(422, b"mine")
    reply = await pair.sending
    assert (reply.status, reply.take(1000)) == (422, b"mine")


@pytest.mark.parametrize("moment", ["prefill sent", "prefill begun", "decode sent", "decode begun"])
async def test_a_client_that_leaves_ends_the_leg_under_way(new_pair, turn, moment):
    pair = new_pair("vllm")
    pair.send()
    (line,) = await pair.lines("prefill")
    if moment.startswith("decode"):
        line.answer()
        (line,) = await pair.lines("decode")
    if moment.endswith("begun"):
        line.begin().piece()
    await turn()
    pair.leave()
    with pytest.raises(asyncio.CancelledError):
        await pair.sending
    await turn()
    assert line.gone
    assert ("decode" in pair.http.lines) is moment.startswith("decode")
    assert pair.failures == [0, 0]


async def test_a_client_that_leaves_in_the_moment_between_the_legs_starts_no_decode(new_pair, turn):
    pair = new_pair("vllm")
    pair.send()
    (prefill,) = await pair.lines("prefill")
    prefill.answer()
    pair.leave()
    await turn()
    assert "decode" not in pair.http.lines
    assert pair.loads == [0, 0]


async def test_a_decode_worker_that_is_removed_while_prefill_works_is_asked_all_the_same(new_pair):
    """Its link is made anew for that, and ends again: nobody else will end it."""
    pair = new_pair("vllm")
    pair.send()
    (prefill,) = await pair.lines("prefill")
    pair.registry.remove("decode")
    prefill.answer()
    (decode,) = await pair.lines("decode")
    decode.answer()
    await pair.sending
    assert pair.http.dropped == ["decode"]
