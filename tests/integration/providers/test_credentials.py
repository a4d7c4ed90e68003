"""Whose key a provider gets: the caller's, where the API wants it; else the worker's; the gateway's never."""

import pytest

from smg.protocol.headers import FORWARDED_REQUEST_HEADERS
from support.providers import BODIES

BEARER, ANTHROPIC, GOOGLE = "authorization: Bearer of-the-caller", "x-api-key: sk-caller", "x-goog-api-key: g-caller"
ALL = [BEARER, ANTHROPIC, GOOGLE]
CREDENTIALS = ("authorization", "x-api-key", "x-goog-api-key")
OPENAI_ROUTES = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings")
OWN_ROUTES = ("/v1/responses", "/v1/interactions")
MESSAGES_ROUTES = ("/v1/messages", "/v1/messages/count_tokens")

A, X, G = ("authorization", "Bearer of-the-caller"), ("x-api-key", "sk-caller"), ("x-goog-api-key", "g-caller")
WORKER = "sk-of-the-worker"


async def credentials_at(gateway, engine, path, headers):
    answer = await gateway.post(path, BODIES[path], headers)
    assert answer.status == 200, answer.body
    return [field for field in engine.calls[-1].fields if field[0] in CREDENTIALS]


@pytest.mark.parametrize(
    ("provider", "path", "sent", "expected"),
    [
        *[(None, path, ALL, [A]) for path in (*OPENAI_ROUTES, *OWN_ROUTES)],
        *[("anthropic", path, ALL, [A]) for path in OPENAI_ROUTES],
        *[("gemini", path, [GOOGLE], []) for path in OPENAI_ROUTES],
        ("acme", "/v1/responses", [ANTHROPIC], []),
        ("gemini", "/v1/interactions", ALL, [G]),
        ("gemini", "/v1/interactions", [BEARER, ANTHROPIC], [A]),
        ("xai", "/v1/responses", ALL, [A]),
        *[(None, path, ALL, [X, A]) for path in MESSAGES_ROUTES],
        *[("anthropic", path, ALL, [X, A]) for path in MESSAGES_ROUTES],
        *[("anthropic", path, [BEARER], [A]) for path in MESSAGES_ROUTES],
        *[("anthropic", path, [ANTHROPIC], [X]) for path in MESSAGES_ROUTES],
    ],
)
async def test_a_caller_s_own_key_goes_where_the_api_wants_it(stage, provider, path, sent, expected):
    gateway, engine = await stage.provider(provider)
    assert await credentials_at(gateway, engine, path, sent) == expected


@pytest.mark.parametrize(
    ("provider", "path", "expected"),
    [
        *[(provider, path, "authorization") for path in OPENAI_ROUTES for provider in (None, "anthropic", "gemini")],
        (None, "/v1/responses", "authorization"),
        (None, "/v1/messages", "authorization"),
        ("anthropic", "/v1/messages", "x-api-key"),
        ("anthropic", "/v1/messages/count_tokens", "x-api-key"),
        ("gemini", "/v1/interactions", "x-goog-api-key"),
    ],
)
async def test_without_one_it_is_the_worker_s_in_the_provider_s_header(stage, provider, path, expected):
    gateway, engine = await stage.provider(provider, spec={"api_key": WORKER})
    value = f"Bearer {WORKER}" if expected == "authorization" else WORKER
    assert await credentials_at(gateway, engine, path, []) == [(expected, value)]
    # A credential of another kind is not meant for it.
    other = GOOGLE if expected != "x-goog-api-key" else ANTHROPIC
    assert await credentials_at(gateway, engine, path, [other]) == [(expected, value)]


@pytest.mark.parametrize("path", BODIES)
async def test_a_gateway_key_never_leaves(stage, path):
    keys = {"api_key": "sk-gateway", "tenant_api_key": ("team:sk-tenant",)}
    gateway, engine = await stage.provider("anthropic" if "messages" in path else None, **keys)
    for key in ("sk-gateway", "sk-tenant"):
        shown = [f"authorization: Bearer {key}", f"x-api-key: {key}", f"x-goog-api-key: {key}"]
        assert await credentials_at(gateway, engine, path, shown) == []
    assert await credentials_at(gateway, engine, path, ["authorization: bearer sk-gateway"]) == []
    assert not any("sk-gateway" in str(call.fields) or "sk-tenant" in str(call.fields) for call in engine.calls)


async def test_a_gateway_key_opens_the_gateway_while_the_caller_s_own_goes_on(stage):
    gateway, engine = await stage.provider("anthropic", api_key="sk-gateway")
    shown = ["authorization: Bearer sk-gateway", ANTHROPIC]
    assert await credentials_at(gateway, engine, "/v1/messages", shown) == [X]


async def test_a_control_plane_key_never_leaves_either(stage):
    gateway, engine = await stage.provider(control_plane_api_keys=("id:name:admin:cp-secret",), key="cp-secret")
    shown = ["authorization: Bearer cp-secret", "x-api-key: cp-secret"]
    assert await credentials_at(gateway, engine, "/v1/chat/completions", shown) == []


async def test_a_worker_key_that_is_the_gateway_s_is_not_sent(stage):
    gateway, engine = await stage.provider(api_key="sk-gateway", spec={"api_key": "sk-gateway"})
    shown = ["authorization: Bearer sk-gateway"]
    assert await credentials_at(gateway, engine, "/v1/chat/completions", shown) == []


async def test_an_engine_of_the_fleet_gets_no_provider_s_key(stage):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine)
    for path in ("/v1/responses", "/v1/messages"):
        client = await gateway.send("POST", path, BODIES[path], ALL)
        call = await engine.call()
        assert [field for field in call.fields if field[0] in CREDENTIALS] == [A]
        await call.answer()
        assert (await client.answer()).status == 200


async def test_nothing_else_of_the_deployment_reaches_a_provider(stage):
    gateway, engine = await stage.provider()
    names = [*sorted(name.decode() for name in FORWARDED_REQUEST_HEADERS), "x-request-id-parent", "cookie", "x-other"]
    await gateway.post("/v1/messages", BODIES["/v1/messages"], [f"{name}: value" for name in names])
    got = set(engine.calls[-1].headers)
    assert got == {
        "host",
        "content-type",
        "content-length",
        "authorization",
        "anthropic-version",
        "anthropic-beta",
        "x-request-id",
        "x-request-id-parent",
        "x-correlation-id",
        "traceparent",
        "tracestate",
    }
