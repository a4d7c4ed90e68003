from urllib.parse import quote

import pytest

from smg.control.rl.routes import absent_routes, routes
from smg.net.routes import RouteTable

ALL = quote("engine=sglang", safe="")


@pytest.fixture
def ask(plane, client):
    """Asks the routes; a body is bytes, headers are what the caller sent."""
    site = client(routes(plane.registry, plane.caller, plane.accounts))

    async def asking(method, target, body=b"", headers=None):
        return await site(method, f"/v1/rl{target}", body, headers or {})

    return asking


def refused(answer):
    return answer.status, answer.json["error"]


async def test_engines_are_listed_with_the_version_of_the_contract(plane, ask):
    plane.register("b", "a", runtime="sglang")
    answer = await ask("GET", "/workers")
    assert (answer.status, answer.json["protocol_version"], answer.json["total"]) == (200, 1, 2)
    assert [row["id"] for row in answer.json["workers"]] == ["a", "b"]


async def test_an_empty_fleet_is_an_empty_list(ask):
    assert (await ask("GET", "/workers")).json == {"protocol_version": 1, "workers": [], "total": 0}


async def test_a_worker_that_is_being_registered_is_in_no_row(plane, ask):
    plane.registry.reserve("a", "http://a")
    assert (await ask("GET", "/workers")).json["total"] == 0
    assert refused(await ask("GET", "/workers/a")) == (404, "worker_not_found")


async def test_one_engine_is_shown_by_any_of_its_ranks(plane, ask):
    for rank in (0, 1):
        plane.register(f"r{rank}", url=f"http://a@{rank}", base_url="http://a", dp_rank=rank)
    for rank in ("r0", "r1"):
        row = (await ask("GET", f"/workers/{rank}")).json
        assert (row["id"], row["base_url"], row["dp_ranks"]) == (rank, "http://a", 2)


@pytest.mark.parametrize(("method", "rest"), [("GET", ""), ("POST", "/engine/op"), ("GET", "/engine/op")])
async def test_an_id_that_nobody_has_is_not_found(ask, method, rest):
    answer = await ask(method, f"/workers/no%20body{rest}")
    assert refused(answer) == (404, "worker_not_found")
    assert set(answer.json) == {"error", "message", "id"}
    assert answer.json["id"] == "no body"


async def test_an_answer_comes_back_under_the_engines_status(plane, ask, captured):
    plane.register("a")
    plane.engines.answers["a"] = captured(418, b'"tea"')
    answer = await ask("POST", "/workers/a/engine/brew", b"{}")
    assert (answer.status, answer.json["status"], answer.json["body"]) == (418, 418, "tea")


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [("down", (502, "upstream_unreachable")), ("silent", (504, "upstream_timeout"))],
)
async def test_no_answer_is_a_failure_that_names_the_worker(plane, ask, answer, refusal):
    plane.register("a")
    plane.engines.answers["a"] = answer
    got = await ask("POST", "/workers/a/engine/op")
    assert refused(got) == refusal
    assert got.json == {
        "error": refusal[1],
        "message": got.json["message"],
        "worker_id": "a",
        "url": "http://a",
    }


async def test_a_worker_that_does_not_speak_http_cannot_be_called(plane, ask):
    plane.register("a", url="grpc://a", connection_mode="grpc")
    answer = await ask("POST", "/workers/a/engine/op")
    assert refused(answer) == (422, "unsupported_connection_mode")
    assert (answer.json["worker_id"], answer.json["url"], answer.json["connection_mode"]) == ("a", "grpc://a", "grpc")


async def test_the_path_is_checked_before_the_worker_is_looked_for(ask):
    assert refused(await ask("POST", "/workers/nobody/engine/a//b")) == (400, "invalid_engine_path")
    assert refused(await ask("POST", "/workers/nobody/engine/")) == (400, "invalid_engine_path")


@pytest.mark.parametrize(
    ("headers", "body", "fields"),
    [
        ({}, b"", {}),
        ({}, b"{}", {b"content-type": b"application/json"}),
        ({b"content-type": b"x/y"}, b"{}", {b"content-type": b"x/y"}),
        ({b"content-type": b"x/y"}, b"", {b"content-type": b"x/y"}),
        (
            {b"x-request-id": b"1", b"traceparent": b"2", b"tracestate": b"3"},
            b"",
            {b"x-request-id": b"1", b"traceparent": b"2", b"tracestate": b"3"},
        ),
        (
            {
                b"authorization": b"Bearer secret",
                b"cookie": b"a=b",
                b"x-request-id-extra": b"1",
                b"x-correlation-id": b"1",
                b"content-length": b"99",
                b"transfer-encoding": b"chunked",
                b"content-language": b"en",
                b"x-smg-routing-key": b"k",
            },
            b"",
            {},
        ),
    ],
)
async def test_of_the_callers_headers_few_go_along(plane, ask, headers, body, fields):
    plane.register("a")
    await ask("POST", "/workers/a/engine/op", body, headers)
    (sent,) = plane.engines.sent
    assert dict(sent.request.fields) == {b"accept": b"*/*", **fields}
    assert (sent.request.method, sent.request.target, sent.request.body) == ("POST", "/op", body)


async def test_a_fan_out_calls_whom_the_selector_matches(plane, ask):
    plane.register("a", "b", runtime="sglang")
    plane.register("c", runtime="vllm")
    answer = await ask("POST", f"/engine/v1/op?x=1&selector={ALL}&y=2", b"{}")
    assert (answer.status, answer.json["total"], list(answer.json["results"])) == (200, 2, ["a", "b"])
    assert {sent.request.target for sent in plane.engines.sent} == {"/v1/op?x=1&y=2"}


async def test_whom_a_fan_out_can_call_follows_the_fleet(plane, ask):
    plane.register("a", runtime="sglang")
    target = f"/engine/op?selector={ALL}"
    assert list((await ask("POST", target)).json["results"]) == ["a"]
    plane.register("b", runtime="sglang")
    assert list((await ask("POST", target)).json["results"]) == ["a", "b"]
    plane.registry.remove("a")
    assert list((await ask("POST", target)).json["results"]) == ["b"]


async def test_one_target_that_fails_makes_it_a_multi_status(plane, ask):
    plane.register("a", "b", runtime="sglang")
    plane.engines.answers["b"] = "down"
    answer = await ask("POST", f"/engine/op?selector={ALL}")
    assert (answer.status, answer.json["succeeded"]) == (207, 1)
    assert [row["worker_id"] for row in answer.json["failed"]] == ["b"]
    plane.accounts.flush()
    assert plane.samples(plane.metrics.rl_fanout) == {("partial",): 1}
    assert plane.samples(plane.metrics.rl_control_calls) == {("other", "ok"): 1, ("other", "unreachable"): 1}


@pytest.mark.parametrize(
    ("target", "refusal"),
    [
        ("/engine/a//b", "selector_required"),
        ("/engine/a//b?selector=%20", "selector_required"),
        ("/engine/a//b?selector=engine", "invalid_selector"),
        (f"/engine/a//b?selector={ALL}", "invalid_engine_path"),
        (f"/engine/?selector={ALL}", "invalid_engine_path"),
    ],
)
async def test_a_fan_out_is_refused_by_its_first_fault_and_not_counted(plane, ask, target, refusal):
    plane.register("a", runtime="sglang")
    assert refused(await ask("POST", target)) == (400, refusal)
    assert plane.engines.called == []
    assert plane.samples(plane.metrics.rl_fanout) == {}


async def test_a_selector_that_matches_nobody_is_repeated_and_counted(plane, ask):
    answer = await ask("POST", "/engine/op?selector=a%3D%C3%A9")
    assert refused(answer) == (400, "no_workers_match")
    assert answer.json["selector"] == "a=é"
    assert plane.samples(plane.metrics.rl_fanout) == {("no_match",): 1}


async def test_two_selectors_are_refused_in_plain_text(plane, ask):
    answer = await ask("POST", f"/engine/op?selector={ALL}&selector={ALL}")
    assert (answer.status, answer.content_type) == (400, b"text/plain; charset=utf-8")
    assert answer.body == b"`selector` may be given once only"


async def test_a_refusal_notes_its_code_for_the_accounts(ask):
    assert (await ask("GET", "/workers/nobody")).error_code == "worker_not_found"


def test_every_route_is_an_admin_route(plane):
    assert {route.group for route in routes(plane.registry, plane.caller, plane.accounts)} == {"admin"}


@pytest.mark.parametrize("path", ["/workers/a/engine/op", "/engine/op"])
def test_engines_are_called_with_get_head_and_post_only(plane, path):
    table = RouteTable(routes(plane.registry, plane.caller, plane.accounts))
    assert set(table.methods(f"/v1/rl{path}")[0]) == {"GET", "HEAD", "POST"}


@pytest.mark.parametrize("path", ["/v1/rl", "/v1/rl/", "/v1/rl/workers", "/v1/rl/workers/a/engine/b/c", "/v1/rl//"])
def test_while_it_is_off_its_place_is_taken_for_every_method_and_open_to_all(path):
    methods, _ = RouteTable(absent_routes()).methods(path)
    assert {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} <= set(methods)
    assert {route.group for route in methods.values()} == {"public"}


def test_its_neighbours_are_not_its_place():
    table = RouteTable(absent_routes())
    assert table.methods("/v1/rlx") == table.methods("/v1/r") == ({}, {})
