"""Which workers serve which names."""

import gc

import pytest

from smg.fleet.policies.round_robin import RoundRobin
from support.bodies import CHAT, chat, padded_chat
from support.raw_engine import answers


async def test_a_model_s_requests_go_to_the_workers_that_serve_it(stage):
    one, other = await stage.engine(model="one"), await stage.engine(model="other")
    gateway = await stage.gateway(one, other)
    for _ in range(3):
        assert (await gateway.chat(chat(model="one", max_tokens=1))).worker == one.url
        assert (await gateway.chat(chat(model="other", max_tokens=1))).worker == other.url
    listed = (await gateway.get("/v1/models")).json
    assert sorted(card["id"] for card in listed["data"]) == ["one", "other"]
    assert {card["owned_by"] for card in listed["data"]} == {"self_hosted"}
    narrowed = (await gateway.get("/workers?model=other")).json
    assert [row["url"] for row in narrowed["workers"]] == [other.url]


async def test_a_model_that_nobody_serves_is_not_found(stage):
    gateway = await stage.gateway(await stage.engine())
    answer = await gateway.chat(chat(model="nobody"))
    assert (answer.status, answer.code) == (404, "model_not_found")
    assert "nobody" in answer.json["error"]["message"]


async def test_a_gateway_without_workers_says_so(stage):
    gateway = await stage.gateway()
    assert (await gateway.chat(chat())).code == "model_not_found"
    assert (await gateway.post("/generate", {"text": "x"})).code == "no_available_workers"
    models = await gateway.get("/v1/models")
    assert (models.status, models.body) == (503, b"No models available")


async def test_a_request_without_a_model_may_go_to_any_worker(stage):
    one, other = await stage.engine(model="one"), await stage.engine(model="other")
    gateway = await stage.gateway(one, other)
    seen = {(await gateway.post("/generate", {"text": "x"})).worker for _ in range(4)}
    assert seen == {one.url, other.url}


async def test_an_alias_reaches_its_model_under_the_model_s_own_name(stage):
    engine = await stage.raw_engine(answers(), model="full-name")
    gateway = await stage.gateway(engine, model_alias=("nick=full-name",))
    body = (
        b'{"temperature":0.950,"model":"nick","messages":[{"role":"user","content":"x"}],"big":1234567890123456789012}'
    )
    assert (await gateway.chat(body)).status == 200
    assert engine.calls[0].body == body.replace(b'"nick"', b'"full-name"')
    assert (await gateway.chat(chat(model="full-name"))).status == 200
    assert (await gateway.chat(chat(model="Nick"))).code == "model_not_found"
    scrape = await gateway.scrape()
    assert {labels["model"] for labels in scrape.labels("smg_router_requests_total")} == {"full-name", "other"}


async def test_an_alias_can_come_with_a_worker(stage):
    engine = await stage.raw_engine(answers())
    gateway = await stage.gateway()
    await gateway.post("/workers", {"url": engine.url, "models": [{"id": "real", "aliases": ["nick"]}]})
    await gateway.registered(1)
    assert (await gateway.chat(chat(model="nick"))).status == 200
    assert engine.calls[0].json["model"] == "real"
    assert (await gateway.get("/workers?model=nick")).json["total"] == 1


async def test_a_name_beats_an_alias(stage):
    aliased, named = await stage.raw_engine(answers(), model="big"), await stage.raw_engine(answers(), model="nick")
    gateway = await stage.gateway(aliased, named, model_alias=("nick=big",))
    for _ in range(3):
        assert (await gateway.chat(chat(model="nick"))).worker == named.url


async def test_an_engine_that_tells_nothing_serves_every_name(stage):
    engine = await stage.raw_engine(answers(), cards=False)
    gateway = await stage.gateway(engine)
    assert (await gateway.chat(chat(model="whatever"))).status == 200
    assert engine.calls[0].json["model"] == "whatever"


@pytest.mark.parametrize("cards", [True, False], ids=["one model", "every model"])
async def test_names_that_callers_invent_make_no_policies(stage, cards):
    gateway = await stage.gateway(await stage.raw_engine(answers(), cards=cards))

    def policies():
        return sum(isinstance(thing, RoundRobin) for thing in gc.get_objects())

    await gateway.chat(chat(model="invented"))
    before = policies()
    for number in range(100):
        await gateway.chat(chat(model=f"invented-{number}"))
    assert policies() == before > 0


async def test_a_body_that_names_two_models_is_refused(stage):
    engine = await stage.engine()
    gateway = await stage.gateway(engine)
    answer = await gateway.chat(b'{"model":"m","messages":[{"role":"user","content":"x"}],"\\u006dodel":"other"}')
    assert (answer.status, answer.json["error"]["code"]) == (400, "json_parse_error")
    assert engine.machine.seen[CHAT] == 0


async def test_a_second_model_keeps_large_bodies_from_being_streamed_unread(stage):
    """Which model a body names is not known before it is read."""
    engines = [await stage.raw_engine(answers(), model=name) for name in ("m", "n")]
    gateway = await stage.gateway(*engines, max_buffered_request_bytes=100)
    for engine in engines:
        assert (await gateway.chat(padded_chat(5000, model=engine.model))).worker == engine.url
    assert (await gateway.scrape()).value("smg_router_request_body_path_total", reason="model_ambiguous") == 2
