"""What /metrics says of the traffic, and that callers cannot make it grow."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.bodies import CHAT, EMBEDDINGS, MODEL, chat
from support.raw_engine import answers, resets, streams


async def test_a_plain_and_a_streamed_request_are_counted_everywhere(stage):
    engine = await stage.engine()
    gateway = await stage.gateway(engine, policy="cache_aware")
    await gateway.chat(chat(max_tokens=2))
    await gateway.chat(chat(max_tokens=2, stream=True))
    await gateway.post(EMBEDDINGS, {"model": MODEL, "input": "x"})
    scrape = await gateway.scrape()
    route = {"router_type": "http", "backend_type": "regular", "connection_mode": "http", "model": MODEL}
    for name, labels, value in [
        ("smg_http_requests_total", {"method": "POST", "path": CHAT}, 2),
        ("smg_http_responses_total", {"path": CHAT, "status_code": "200", "error_code": ""}, 2),
        ("smg_http_request_duration_seconds_count", {"method": "POST", "path": CHAT}, 2),
        ("smg_http_connections_active", {}, 0),
        ("smg_router_requests_total", {**route, "endpoint": "chat", "streaming": "false"}, 1),
        ("smg_router_requests_total", {**route, "endpoint": "chat", "streaming": "true"}, 1),
        ("smg_router_requests_total", {**route, "endpoint": "embeddings", "streaming": "false"}, 1),
        ("smg_router_request_duration_seconds_count", {**route, "endpoint": "chat"}, 2),
        ("smg_router_upstream_responses_total", {"router_type": "http", "status_code": "200", "error_code": ""}, 3),
        ("smg_router_request_body_path_total", {"path": "buffered", "reason": "policy_needs_text"}, 3),
        ("smg_worker_pool_size", {"worker_type": "regular", "connection_mode": "http", "model": MODEL}, 1),
        ("smg_worker_requests_active", {"worker": engine.url}, 0),
        ("smg_worker_health", {"worker": engine.url}, 1),
        ("smg_worker_selection_total", {"model": MODEL, "policy": "cache_aware", "worker_type": "regular"}, 3),
        ("smg_worker_cb_state", {"worker": engine.url}, 0),
        ("smg_worker_cb_outcomes_total", {"worker": engine.url, "outcome": "success"}, 3),
    ]:
        assert scrape.matching(name, **labels), name
        assert scrape.value(name, **labels) == value, name
    assert sum(sample.value for sample in scrape.matching("smg_cache_aware_policy_branch_total")) == 3
    assert scrape.value("smg_worker_health_checks_total", worker_type="regular", result="success") >= 1


async def test_what_is_under_way_shows_as_such(stage):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine)
    client = await gateway.send("POST", CHAT, chat(stream=True))
    call = await engine.call()
    await call.begin_stream()
    await client.head()
    scrape = await gateway.scrape()
    assert scrape.value("smg_http_connections_active") == 1
    assert scrape.value("smg_admission_inflight") == 1
    assert scrape.value("smg_worker_requests_active", worker=engine.url) == 1
    assert scrape.value("smg_http_inflight_request_age_count", gt="0") == 1
    assert scrape.value("smg_http_responses_total", path=CHAT) == 0
    await call.end_stream()
    await gateway.settled()
    scrape = await gateway.scrape()
    assert scrape.value("smg_http_connections_active") == 0
    assert scrape.value("smg_worker_requests_active", worker=engine.url) == 0
    assert scrape.value("smg_http_inflight_request_age_count") == 0
    assert scrape.value("smg_http_responses_total", path=CHAT) == 1


@pytest.mark.parametrize(
    ("script", "body", "kind"),
    [
        (answers(), chat(model="nobody"), "no_workers"),
        (resets, chat(), "backend_error"),
        (answers(200, b"x" * 5000), chat(), "backend_error"),
    ],
)
async def test_a_failed_request_says_whose_fault_it_was(stage, script, body, kind):
    gateway = await stage.gateway(
        await stage.raw_engine(script), disable_retries=True, policy="cache_aware", max_payload_size=2000
    )
    answer = await gateway.chat(body)
    scrape = await gateway.scrape()
    assert scrape.value("smg_router_request_errors_total", endpoint="chat", error_type=kind) == 1
    assert scrape.value("smg_http_responses_total", path=CHAT, error_code=answer.code) == 1


async def test_a_worker_s_own_error_has_no_code_of_the_gateway_s(stage):
    gateway = await stage.gateway(await stage.raw_engine(answers(422)))
    await gateway.chat(chat())
    scrape = await gateway.scrape()
    assert scrape.value("smg_http_responses_total", path=CHAT, status_code="422", error_code="") == 1
    assert scrape.matching("smg_router_request_errors_total") == []


async def test_a_broken_stream_is_an_error_behind_a_good_status(stage):
    async def breaks(call):
        await call.begin_stream()
        await call.event("half")
        call.reset()

    gateway = await stage.gateway(await stage.raw_engine(breaks))
    await gateway.chat(chat(stream=True))
    scrape = await gateway.scrape()
    assert scrape.value("smg_http_responses_total", path=CHAT, status_code="200") == 1
    assert scrape.value("smg_worker_errors_total", error_type="backend_error") == 1
    assert scrape.value("smg_router_request_errors_total", error_type="backend_error") == 1


async def test_callers_cannot_make_series_grow(stage):
    """2,000 invented models, paths, methods and ids leave as many series as one of each."""
    engine = await stage.raw_engine(streams("x"))
    gateway = await stage.gateway(engine, routing_key_override=True)

    async def invent(client, number):
        await client.send("POST", CHAT, chat(model=f"model-{number}"), [f"x-request-id: id-{number}"])
        assert (await client.answer()).status == 404
        await client.send("GET", f"/invented/{number}")
        assert (await client.answer()).status == 404
        await client.send("GET", f"/workers/{number:032x}")
        assert (await client.answer()).status == 404
        await client.send(f"INVENT{number}", CHAT)
        assert (await client.answer()).status == 405
        await client.send("POST", f"{CHAT}?version={number}", chat(), [f"x-smg-routing-key: key-{number}"])
        assert (await client.answer()).status == 200

    def series(scrape):
        return {(sample.name, *sorted(sample.labels.items())) for sample in scrape.samples}

    client = await gateway.connect()
    await invent(client, 0)
    before = series(await gateway.scrape())
    for number in range(1, 2000):
        await invent(client, number)
    scrape = await gateway.scrape()
    assert series(scrape) == before
    assert scrape.value("smg_router_requests_total", model="other") == 2000
    assert scrape.value("smg_http_requests_total", path="/workers/{id}") == 2000
    assert "INVENT" not in scrape.text
    assert "invented" not in scrape.text


async def test_an_engine_cannot_break_the_format(stage):
    """Whatever an engine calls its model: the page stays readable."""
    name = 'evil"} 1\nsmg_forged_total 7\n\\\u2028'
    engine = await stage.raw_engine(answers(), model=name)
    gateway = await stage.gateway(engine)
    assert (await gateway.chat(chat(model=name))).status == 200
    scrape = await gateway.scrape()
    families = {family.name: family for family in text_string_to_metric_families(scrape.text)}
    assert "smg_forged" not in families
    (sample,) = families["smg_worker_pool_size"].samples
    assert sample.labels["model"].startswith('evil"} 1')


async def test_the_page_is_in_the_classic_text_format(stage):
    gateway = await stage.gateway(await stage.engine())
    await gateway.chat(chat(max_tokens=1))
    scrape = await gateway.scrape()
    families = list(text_string_to_metric_families(scrape.text))
    assert len(families) > 10
    for family in families:
        assert family.name.startswith("smg_")
        assert family.documentation
        assert family.type != "untyped"


async def test_the_listener_for_metrics_serves_nothing_else_and_asks_for_no_key(stage):
    gateway = await stage.gateway(await stage.engine(), api_key="the-right-key")
    assert (await gateway.scrape()).samples
    assert (await gateway.get("/metrics")).status == 404
