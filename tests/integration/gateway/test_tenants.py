"""Tenants are told apart, and each spends its own budget, on every route and whatever becomes of a request."""

import json

import pytest

from support.bodies import CHAT, COMPLETIONS, EMBEDDINGS, GENERATE, MODEL, chat, padded_chat

KEYS = ("red:red-key", "blue:blue-key")
USAGE = {"prompt_tokens": 10, "completion_tokens": 30, "total_tokens": 40}
RED, BLUE = ["authorization: Bearer red-key"], ["authorization: Bearer blue-key"]


@pytest.fixture
def limited(stage, tmp_path):
    """A gateway with a budget for everybody and, by tenant key, for some; and its engine."""

    async def start(tokens=1000, requests=1000, *script, policies=(), rules=(), **settings):
        def policy(tokens, requests):
            return {"tokens_per_minute": tokens, "requests_per_minute": requests, "model_rules": list(rules)}

        tenants = [{"tenant_key": key, **policy(*numbers)} for key, numbers in dict(policies).items()]
        path = tmp_path / "limits.yaml"
        path.write_text(json.dumps({"default_policy": policy(tokens, requests), "tenants": tenants}), encoding="utf-8")
        engine = await stage.raw_engine(*script)
        settings = {"tenant_api_key": KEYS, **settings}
        gateway = await stage.gateway(
            engine, tenant_rate_limit_enabled=True, tenant_rate_limit_config=str(path), **settings
        )
        return gateway, engine

    return start


def answering(body, status=200):
    async def behave(call):
        await call.answer(status, body)

    return behave


async def ask(gateway, headers=RED, target=CHAT, body=None):
    return await gateway.post(target, chat() if body is None else body, headers)


async def test_a_tenant_over_its_requests_is_told_when_to_come_back_and_others_are_not(limited):
    gateway, engine = await limited(1000, 1000, answering({}), policies={"auth:red": (1000, 2)})
    assert [(await ask(gateway)).status for _ in range(2)] == [200, 200]
    refused = await ask(gateway)
    assert (refused.status, refused.code) == (429, "tenant_rate_limit_exceeded")
    assert 1 <= int(refused.headers["retry-after"]) <= 30
    assert [(await ask(gateway, BLUE)).status for _ in range(5)] == [200] * 5
    assert len(engine.calls) == 7


async def test_what_never_fits_has_no_time_to_come_back(limited):
    gateway, engine = await limited(100, 1000, answering({}))
    refused = await ask(gateway, body=chat("x" * 404))
    assert (refused.status, refused.code) == (429, "tenant_rate_limit_exceeded")
    assert "retry-after" not in refused.headers
    assert engine.calls == []


@pytest.mark.parametrize(
    ("target", "body", "answer"),
    [
        (CHAT, chat(), {"choices": [], "usage": USAGE}),
        (COMPLETIONS, {"model": MODEL, "prompt": "hi"}, {"choices": [], "usage": USAGE}),
        (EMBEDDINGS, {"model": MODEL, "input": "hi"}, {"data": [], "usage": {"prompt_tokens": 40, "total_tokens": 40}}),
        (GENERATE, {"text": "hi"}, {"text": "", "meta_info": {"prompt_tokens": 10, "completion_tokens": 30}}),
        ("/v1/rerank", {"query": "hi", "documents": ["a"]}, {"results": [], "usage": {"total_tokens": 40}}),
    ],
)
async def test_every_route_is_settled_by_what_its_answer_says(limited, target, body, answer):
    gateway, _ = await limited(41, 1000, answering(answer))
    assert (await ask(gateway, target=target, body=body)).status == 200
    refused = await ask(gateway, body=chat("x" * 12))
    assert refused.code == "tenant_rate_limit_exceeded"
    assert (await ask(gateway, body=chat("x" * 4))).status == 200


@pytest.mark.parametrize("told", [True, False])
async def test_a_stream_passes_unchanged_and_is_settled_by_its_last_event(limited, told):
    async def behave(call):
        await call.begin_stream()
        for _ in range(3):
            await call.event('{"choices":[{"delta":{"content":"Hi"}}],"usage":null}')
        if told:
            await call.event(json.dumps({"choices": [], "usage": USAGE}))
        await call.event("[DONE]")
        await call.end_stream()

    gateway, _ = await limited(41, 1000, behave)
    answer = await ask(gateway, body=chat(stream=True))
    assert len(answer.events) == 4 + told
    assert (await ask(gateway, body=chat("x" * 12, stream=True))).status == (429 if told else 200)


async def test_a_failed_request_stays_as_estimated(limited):
    gateway, _ = await limited(41, 1000, answering({"usage": USAGE}, 400))
    assert (await ask(gateway)).status == 400
    assert (await ask(gateway, body=chat("x" * 140))).status == 400


async def test_a_request_that_is_none_is_not_charged(limited):
    gateway, _ = await limited(1000, 1, answering({}))
    assert (await ask(gateway, body=b"{")).status == 400
    assert (await ask(gateway, body=chat(n=0))).status == 400
    assert (await ask(gateway)).status == 200


async def test_a_model_rule_goes_by_the_canonical_name(limited):
    rule = {"rule_id": "a", "matcher": {"type": "exact", "value": MODEL}}
    rule |= {"tokens_per_minute": 1000, "requests_per_minute": 1}
    gateway, _ = await limited(1000, 1000, answering({}), rules=[rule], model_alias=(f"alias={MODEL}",))
    assert (await ask(gateway, body=chat(model="alias"))).status == 200
    assert (await ask(gateway, body=chat())).status == 429


async def test_a_large_body_is_read_to_learn_its_price(limited):
    gateway, engine = await limited(1000, 1000, answering({}), policy="random", max_buffered_request_bytes=100)
    assert (await ask(gateway, body=padded_chat(8000))).status == 429
    assert (await ask(gateway, body=padded_chat(2000))).status == 200
    scrape = await gateway.scrape()
    assert scrape.value("smg_router_request_body_path_total", path="buffered", reason="tenant_rate_limit") == 2
    assert len(engine.calls) == 1


async def test_without_keys_callers_are_told_apart_by_a_trusted_header_or_their_address(limited):
    gateway, _ = await limited(1000, 1, answering({}), tenant_api_key=(), trust_tenant_header=True)
    assert (await ask(gateway, ["x-smg-tenant-id: a"])).status == 200
    assert (await ask(gateway, ["x-smg-tenant-id: a"])).status == 429
    assert (await ask(gateway, ["x-smg-tenant-id: b"])).status == 200
    assert (await ask(gateway, [])).status == 200
    assert (await ask(gateway, [])).status == 429


async def test_a_key_is_not_overruled_by_the_header(limited):
    gateway, _ = await limited(1000, 1, answering({}), trust_tenant_header=True)
    assert (await ask(gateway, [*RED, "x-smg-tenant-id: blue"])).status == 200
    assert (await ask(gateway, [*RED, "x-smg-tenant-id: green"])).status == 429
    assert (await ask(gateway, BLUE)).status == 200


async def test_tenant_keys_serve_and_do_not_administer(limited):
    gateway, _ = await limited(1000, 1000, answering({}), api_key="shared")
    shared = ["authorization: Bearer shared"]
    assert [(await ask(gateway, h)).status for h in (RED, shared, [], ["authorization: Bearer x"])] == [
        200,
        200,
        401,
        401,
    ]
    assert [(await gateway.get("/workers", h)).status for h in (RED, shared)] == [401, 200]
    assert (await gateway.get("/v1/models", RED)).status == 200
