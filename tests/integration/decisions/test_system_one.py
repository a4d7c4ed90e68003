"""SGLang engines are asked by System One: the request translated there, the answer back, an error left alone."""

import json

import pytest

from support.raw_engine import answers, breaks_off, resets, streams


async def test_an_answer_comes_back_translated(stage, decisions):
    gateway, engine = await stage.engines_behind(("sglang", decisions.scored(0.25)))
    answer = await gateway.post(decisions.path, decisions.body(safety_identifier="u"))
    assert (answer.status, answer.worker) == (200, engine.url)
    assert answer.json["model"] == "engine's"
    assert answer.json["answers"] == [{"type": "predicate", "name": None, "probability": 0.25}]
    assert answer.json["usage"]["total_tokens"] == 12
    (call,) = engine.calls
    assert (call.method, call.path) == ("POST", "/v1/systemone")
    assert call.json["questions"] == {"q0": {"type": "noul", "instructions": "Is it so?"}}


async def test_an_alias_is_asked_by_its_model(stage, decisions):
    gateway, engine = await stage.engines_behind(("sglang", decisions.scored()), model_alias=("judge=m",))
    assert (await gateway.post(decisions.path, decisions.body(model="judge"))).status == 200
    assert engine.calls[0].json["model"] == "m"


async def test_what_the_engine_says_of_its_own_bytes_is_not_said_of_ours(stage, decisions):
    about_bytes = ("etag: x", "content-md5: x", "digest: x", "accept-ranges: bytes", "content-type: text/json")
    gateway, _ = await stage.engines_behind(("sglang", decisions.scored(0.5, *about_bytes, "x-trace: t", "x-trace: u")))
    answer = await gateway.post(decisions.path, decisions.body())
    assert answer.headers["content-type"] == "application/json"
    assert [value for name, value in answer.fields if name == "x-trace"] == ["t", "u"]
    assert not {"etag", "content-md5", "digest", "accept-ranges"} & set(answer.headers)
    assert int(answer.headers["content-length"]) == len(answer.body)


async def test_a_connection_is_used_again_and_large_answers_pass(stage, decisions):
    many = 2000
    gateway, engine = await stage.engines_behind(("sglang", decisions.scored(0.5, count=many)))
    for _ in range(3):
        answer = await gateway.post(decisions.path, decisions.body(count=many))
        assert len(answer.json["answers"]) == many
    assert engine.connections == 1


@pytest.mark.parametrize("status", [400, 404, 422, 429, 500, 503])
@pytest.mark.parametrize("body", [b'{"error": {"message": "no", "code": 7}}', b"plain"])
async def test_an_engine_s_error_stays_what_it_is(stage, decisions, status, body):
    gateway, engine = await stage.engines_behind(("sglang", answers(status, body)), disable_retries=True)
    answer = await gateway.post(decisions.path, decisions.body())
    assert (answer.status, answer.body, answer.worker) == (status, body, engine.url)
    assert "x-smg-error-code" not in answer.headers


BROKEN = [answers(200, b"<html>"), answers(200, b""), answers(200, b"{}"), answers(204, b""), streams("{}")]


@pytest.mark.parametrize("behaviour", BROKEN)
async def test_a_success_that_cannot_be_read_is_a_bad_gateway_and_speaks_against_the_worker(
    stage, decisions, behaviour
):
    gateway, engine = await stage.engines_behind(("sglang", behaviour), disable_retries=True)
    answer = await gateway.post(decisions.path, decisions.body())
    assert (answer.status, answer.code) == (502, "invalid_decisions_response")
    assert gateway.worker(engine).breaker.failures == 1
    scrape = await gateway.scrape()
    assert scrape.value("smg_worker_cb_outcomes_total", worker=engine.url, outcome="failure") == 1


async def test_unreadable_answers_open_the_breaker(stage, decisions):
    gateway, engine = await stage.engines_behind(
        ("sglang", answers(200, b"{}")), disable_retries=True, cb_failure_threshold=2
    )
    for _ in range(2):
        assert (await gateway.post(decisions.path, decisions.body())).status == 502
    answer = await gateway.post(decisions.path, decisions.body())
    assert (answer.status, answer.code) == (503, "no_available_workers")
    assert len(engine.calls) == 2


@pytest.mark.parametrize("failure", [answers(503), answers(500), resets, breaks_off, answers(200, b"{}")])
async def test_a_failure_is_tried_again_on_another_worker(stage, decisions, failure):
    gateway, bad, good = await stage.engines_behind(("sglang", failure), ("sglang", decisions.scored(0.75)))
    while not bad.calls:
        answer = await gateway.post(decisions.path, decisions.body())
        assert (answer.status, answer.worker) == (200, good.url)
        assert answer.json["answers"][0]["probability"] == 0.75
    assert len(bad.calls) == 1


async def test_an_answer_beyond_the_payload_limit_is_refused(stage, decisions):
    gateway, _ = await stage.engines_behind(
        ("sglang", decisions.scored(x="x" * 2000)), disable_retries=True, max_payload_size=1000
    )
    answer = await gateway.post(decisions.path, decisions.body())
    assert (answer.status, answer.code) == (502, "upstream_response_too_large")


async def test_what_sglang_cannot_do_is_refused_before_it_is_asked(stage, decisions):
    gateway, engine = await stage.engines_behind(("sglang", decisions.scored()))
    answer = await gateway.post(decisions.path, decisions.body(temperature=0))
    assert (answer.status, answer.code) == (400, "unsupported_decisions_request")
    assert "temperature" in answer.json["error"]["message"]
    assert engine.calls == []
    await gateway.settled()
    assert gateway.worker(engine).breaker.failures == 0
    scrape = await gateway.scrape()
    assert scrape.value("smg_router_request_errors_total", error_type="validation_error", endpoint="decisions") == 1


async def test_a_client_that_leaves_takes_its_request_with_it(stage, decisions):
    gateway, engine = await stage.engines_behind(("sglang",))
    client = await gateway.send("POST", decisions.path, decisions.body())
    call = await engine.call()
    assert gateway.loads == [1]
    await client.closed()
    await call.abandoned()
    await gateway.settled()


async def test_a_client_that_leaves_in_the_middle_of_the_answer_takes_it_with_it(stage, decisions):
    gateway, engine = await stage.engines_behind(("sglang",))
    client = await gateway.send("POST", decisions.path, decisions.body())
    call = await engine.call()
    await call.begin(200, "content-type: application/json", "content-length: 1000")
    await call.write(b'{"model":')
    await client.closed()
    await call.abandoned()
    await gateway.settled()


async def test_a_tenant_is_charged_what_the_answer_says(stage, decisions, tmp_path):
    rules = {"default_policy": {"tokens_per_minute": 30, "requests_per_minute": 100, "model_rules": []}, "tenants": []}
    path = tmp_path / "limits.yaml"
    path.write_text(json.dumps(rules), encoding="utf-8")
    gateway, engine = await stage.engines_behind(
        ("sglang", decisions.scored()), tenant_rate_limit_enabled=True, tenant_rate_limit_config=str(path)
    )
    # Twelve tokens each by the answer; by their texts they would be five, and all four would fit.
    statuses = [(await gateway.post(decisions.path, decisions.body())).status for _ in range(4)]
    assert statuses == [200, 200, 200, 429]
    assert len(engine.calls) == 3
