"""Who gets a Decisions request, and that everybody but SGLang gets it as it came."""

import pytest

from support.raw_engine import answers, streams

OWN = b'{"answers": [{"type": "refusal", "name": null}], "p": 0.10, "usage": null}'


@pytest.mark.parametrize("runtime", ["vllm", "generic", "trtllm"])
async def test_other_engines_get_the_request_byte_for_byte_and_so_does_the_client_their_answer(
    stage, decisions, runtime
):
    gateway, engine = await stage.engines_behind((runtime, answers(200, OWN, "etag: x")))
    body = (
        b'{"model": "m",  "input": [{"role":"user","content":[{"type":"input_text","text":"\\u00e9","k":1.10}]}],\n'
        b' "questions": [{"type": "choice", "instructions": "", "choices": [], "seed": 9007199254740993}], "x": 1e-7}'
    )
    answer = await gateway.post(decisions.path, body)
    assert (answer.status, answer.body, answer.headers["etag"]) == (200, OWN, "x")
    (call,) = engine.calls
    assert (call.path, call.body) == (decisions.path, body)


async def test_of_an_aliased_request_only_the_model_changes(stage, decisions):
    gateway, engine = await stage.engines_behind(("vllm", answers(200, OWN)), model_alias=("judge=m",))
    await gateway.post(decisions.path, b'{"model":"judge","input":"x","questions":[],"x":1.10}')
    assert engine.calls[0].body == b'{"model":"m","input":"x","questions":[],"x":1.10}'


@pytest.mark.parametrize("behaviour", [answers(200, b"no json", "content-type: text/plain"), answers(422, b"{}")])
async def test_nobody_judges_what_another_engine_answers(stage, decisions, behaviour):
    gateway, engine = await stage.engines_behind(("vllm", behaviour))
    answer = await gateway.post(decisions.path, decisions.body())
    assert answer.body in {b"no json", b"{}"}
    assert "x-smg-error-code" not in answer.headers
    assert len(engine.calls) == 1
    assert gateway.worker(engine).breaker.failures == 0


async def test_a_stream_that_another_engine_chose_to_send_is_relayed(stage, decisions):
    gateway, _ = await stage.engines_behind(("vllm", streams("a", "b")))
    answer = await gateway.post(decisions.path, decisions.body(stream=True))
    assert answer.events == ["a", "b"]


async def test_in_a_mixed_fleet_each_engine_is_asked_its_own_way(stage, decisions):
    gateway, sglang, vllm = await stage.engines_behind(("sglang", decisions.scored()), ("vllm", answers(200, OWN)))
    seen = {}
    for _ in range(4):
        answer = await gateway.post(decisions.path, decisions.body())
        seen[answer.worker] = answer
    assert seen[vllm.url].body == OWN
    assert seen[sglang.url].json["answers"][0]["probability"] == 0.25
    statuses = {(await gateway.post(decisions.path, decisions.body(x=1))).status for _ in range(4)}
    assert statuses == {200, 400}


async def test_providers_are_left_out_as_long_as_there_is_an_engine(stage, decisions):
    gateway, outside, engine = await stage.engines_behind(("external", answers(200)), ("vllm", answers(200, OWN)))
    for _ in range(4):
        assert (await gateway.post(decisions.path, decisions.body())).worker == engine.url
    assert outside.calls == []


async def test_a_model_of_a_provider_only_is_not_implemented(stage, decisions):
    gateway, outside = await stage.engines_behind(("external", answers(200)))
    answer = await gateway.post(decisions.path, decisions.body())
    assert (answer.status, answer.code) == (501, "decisions_not_supported")
    unknown = await gateway.post(decisions.path, decisions.body(model="nobody's"))
    assert (unknown.status, unknown.code) == (404, "model_not_found")
    assert outside.calls == []


async def test_halves_of_engines_cannot_decide_and_whole_ones_beside_them_can(stage, decisions):
    gateway, prefill, decode = await stage.engines_behind(
        ("sglang", answers(200)),
        ("sglang", answers(200)),
        roles=("prefill", "decode"),
        pd_disaggregation=True,
        prefill=("http://127.0.0.1:9",),
        decode=("http://127.0.0.1:9",),
    )
    answer = await gateway.post(decisions.path, decisions.body())
    assert (answer.status, answer.code) == (501, "decisions_not_supported")
    assert prefill.calls == decode.calls == []
    whole = await stage.raw_engine(answers(200, OWN))
    spec = {"url": whole.url, "runtime_type": "vllm", "models": [{"id": "m"}]}
    assert (await gateway.post("/workers", spec)).status == 202
    await gateway.registered(3)
    assert (await gateway.post(decisions.path, decisions.body())).worker == whole.url


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"safety_identifier": "u" * 129}, 400),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://x.test"}]}]}, 400),
        ({"input": [{"role": "tool", "content": "x"}]}, "json_parse_error"),
        ({"questions": [{"type": "essay", "instructions": "x"}]}, "json_parse_error"),
    ],
)
async def test_schema_and_limits_come_before_the_choice_of_a_worker(stage, decisions, members, code):
    gateway, engine = await stage.engines_behind(("vllm", answers(200, OWN)))
    for model in ("m", "nobody's"):
        answer = await gateway.post(decisions.path, decisions.body(model=model, **members))
        assert (answer.status, answer.json["error"]["code"]) == (400, code)
        assert "x-smg-error-code" not in answer.headers
    assert engine.calls == []
