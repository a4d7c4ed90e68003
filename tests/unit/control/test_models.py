import json

import pytest

from smg.control.models import routes
from smg.fleet.spec import WorkerSpec
from smg.fleet.worker import Status

GATEWAY_KEY = "ours"


@pytest.fixture
def call(client, registry, engines):
    return client(routes(registry, engines, lambda key: key == GATEWAY_KEY))


def listed(answer):
    assert (answer.status, answer.json["object"]) == (200, "list")
    return [(card["id"], card["owned_by"]) for card in answer.json["data"]]


async def test_each_model_is_listed_once_under_its_canonical_name(call, registry, make_worker, make_card):
    registry.add(make_worker("any"))
    registry.add(make_worker("a", make_card("m", ("short",)), make_card("n")))
    registry.add(make_worker("b", make_card("m"), status=Status.NOT_READY))
    answer = await call("GET", "/v1/models")
    assert answer.json["data"] == [
        {"id": name, "object": "model", "created": 0, "owned_by": "self_hosted"} for name in ("m", "n")
    ]


async def test_without_a_model_it_is_a_plain_503(call, registry, make_worker):
    registry.add(make_worker("any"))
    answer = await call("GET", "/v1/models")
    assert (answer.status, answer.body) == (503, b"No models available")
    assert answer.content_type.startswith(b"text/plain")


@pytest.fixture
def providers(registry, engines, make_worker, make_card):
    """Two providers, of which the second lists something, next to a model of our own."""
    for name, provider in (("empty", "openai"), ("full", "xai")):
        spec = WorkerSpec(url=f"http://{name}", provider=provider)
        registry.add(make_worker(name, make_card("theirs"), runtime="external", spec=spec))
    registry.add(make_worker("a", make_card("m")))
    engines.answers["http://empty/v1/models"] = 200, b'{"data": []}', b""
    body = json.dumps({"data": [{"id": "x", "created": 5, "owned_by": "who"}, {"id": "y"}]}).encode()
    engines.answers["http://full/v1/models"] = 200, body, b""
    return engines


@pytest.mark.parametrize(
    "headers", [{b"authorization": b"Bearer mine"}, {b"authorization": b"bearer mine"}, {b"x-api-key": b"mine"}]
)
async def test_a_callers_own_key_is_taken_to_the_providers(call, providers, headers):
    answer = await call("GET", "/v1/models", headers=headers)
    assert listed(answer) == [("x", "xai"), ("y", "xai")]
    assert {card["created"] for card in answer.json["data"]} == {0}
    assert providers.calls == [("http://empty/v1/models", "mine"), ("http://full/v1/models", "mine")]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {b"authorization": b"Bearer ours"},
        {b"x-api-key": b"ours"},
        {b"authorization": b"Basic eDp5"},
        {b"authorization": b"Bearer "},
        {b"authorization": b"Bearer \xff"},
    ],
)
async def test_without_a_key_of_ones_own_no_provider_is_asked(call, providers, headers):
    assert listed(await call("GET", "/v1/models", headers=headers)) == [("m", "self_hosted")]
    assert providers.calls == []


@pytest.mark.parametrize(
    "answer",
    [
        "down",
        (401, b'{"data": [{"id": "x"}]}', b""),
        (200, b"oops", b""),
        (200, b"[]", b""),
        (200, b"{}", b""),
        (200, b'{"data": 5}', b""),
        (200, b'{"data": [5]}', b""),
        (200, b'{"data": [{"id": 5}]}', b""),
    ],
)
async def test_a_provider_without_a_list_gives_way_to_our_own(call, providers, answer):
    providers.answers["http://full/v1/models"] = answer
    got = await call("GET", "/v1/models", headers={b"authorization": b"Bearer mine"})
    assert listed(got) == [("m", "self_hosted")]


async def test_our_own_workers_never_see_a_callers_key(call, registry, engines, make_worker, make_card):
    registry.add(make_worker("a", make_card("m")))
    await call("GET", "/v1/models", headers={b"authorization": b"Bearer mine"})
    assert engines.calls == []


async def test_a_providers_host_names_it_where_the_spec_does_not(call, registry, engines, make_worker, make_card):
    worker = make_worker("a", make_card("x"), runtime="external")
    worker.base_url = "https://api.anthropic.com"
    registry.add(worker)
    engines.answers["https://api.anthropic.com/v1/models"] = 200, b'{"data": [{"id": "x"}]}', b""
    answer = await call("GET", "/v1/models", headers={b"x-api-key": b"mine"})
    assert listed(answer) == [("x", "anthropic")]
