"""Every route, with every credential, under every way to configure keys: who gets in, and how the others are told.

The routes are those that a running gateway has. One that is added without a row here makes a test fail.
"""

from dataclasses import dataclass

import pytest

from smg.auth.tokens import MAX_TOKEN_BYTES
from support.bodies import CHAT
from support.tokens import ec_signer, rsa_signer

SHARED, TENANT, ADMIN, USER = "shared-key", "tenant:key", "admin:key", "user-key"
KEYS = {"api_key": SHARED}
TENANTS = {"tenant_api_key": (f"red:{TENANT}",)}
CONTROL = {"control_plane_api_keys": (f"a:Ann:admin:{ADMIN}", f"u:Uwe:user:{USER}")}

# Group, and what the route says to `{}` when it is open and there is no worker.
ROUTES = {
    ("GET", "/openapi.json"): ("public", 200),
    ("GET", "/liveness"): ("public", 200),
    ("GET", "/health"): ("public", 200),
    ("GET", "/readiness"): ("public", 503),
    ("GET", "/health_generate"): ("public", 503),
    ("GET", "/get_server_info"): ("public", 503),
    ("GET", "/get_model_info"): ("public", 503),
    ("GET", "/v1/models"): ("public", 503),
    ("GET", "/loads"): ("public", 200),
    ("GET", "/engine_metrics"): ("public", 500),
    ("GET", "/get_loads"): ("admin", 200),
    ("GET", "/workers"): ("admin", 200),
    ("POST", "/workers"): ("admin", 400),
    ("GET", "/workers/{id}"): ("admin", 400),
    ("PATCH", "/workers/{id}"): ("admin", 400),
    ("PUT", "/workers/{id}"): ("admin", 400),
    ("DELETE", "/workers/{id}"): ("admin", 400),
    ("POST", "/flush_cache"): ("admin", 200),
    ("POST", "/start_profile"): ("admin", 404),
    ("POST", "/stop_profile"): ("admin", 404),
    ("GET", "/v1/tokenizers"): ("admin", 200),
    ("GET", "/v1/rl/workers"): ("admin", 200),
    ("GET", "/v1/rl/workers/{id}"): ("admin", 404),
    ("GET", "/v1/rl/workers/{id}/engine/{*path}"): ("admin", 404),
    ("POST", "/v1/rl/workers/{id}/engine/{*path}"): ("admin", 404),
    ("GET", "/v1/rl/engine/{*path}"): ("admin", 400),
    ("POST", "/v1/rl/engine/{*path}"): ("admin", 400),
    ("POST", "/v1/chat/completions"): ("serving", 400),
    ("POST", "/v1/completions"): ("serving", 400),
    ("POST", "/generate"): ("serving", 503),
    ("POST", "/v1/embeddings"): ("serving", 400),
    ("POST", "/v1/classify"): ("serving", 400),
    ("POST", "/v1/rerank"): ("serving", 400),
    ("POST", "/rerank"): ("serving", 400),
    ("POST", "/v1/decisions"): ("serving", 400),
    ("POST", "/v1/audio/transcriptions"): ("serving", 400),
    ("POST", "/v1/responses"): ("serving", 400),
    ("POST", "/v1/messages"): ("serving", 400),
    ("POST", "/v1/messages/count_tokens"): ("serving", 400),
    ("POST", "/v1/interactions"): ("serving", 400),
    ("GET", "/v1/realtime"): ("serving", 426),
    ("POST", "/v1/realtime/calls"): ("serving", 400),
    ("POST", "/v1/realtime/sessions"): ("serving", 400),
    ("POST", "/v1/realtime/client_secrets"): ("serving", 400),
    ("POST", "/v1/realtime/transcription_sessions"): ("serving", 400),
}


@dataclass(frozen=True)
class Configuration:
    """What is configured: `keys` open serving routes, `admins` and `users` are the control plane's, if it has any."""

    settings: dict
    keys: frozenset = frozenset()
    shared: bool = False
    admins: frozenset = frozenset()
    users: frozenset = frozenset()
    issuer: bool = False


BY_KEY = {"admins": frozenset({"admin key"}), "users": frozenset({"user key"})}
BY_TOKEN = {"admins": frozenset({"admin token"}), "users": frozenset({"user token"}), "issuer": True}
BY_BOTH = {name: BY_KEY[name] | BY_TOKEN[name] for name in BY_KEY} | {"issuer": True}
ONE, OTHER, BOTH = frozenset({"shared"}), frozenset({"tenant"}), frozenset({"shared", "tenant"})
CONFIGURATIONS = {
    "no keys": Configuration({}),
    "a shared key": Configuration(KEYS, ONE, shared=True),
    "tenant keys": Configuration(TENANTS, OTHER),
    "a shared key and tenant keys": Configuration(KEYS | TENANTS, BOTH, shared=True),
    "control-plane keys": Configuration(CONTROL, **BY_KEY),
    "control-plane keys and all others": Configuration(KEYS | TENANTS | CONTROL, BOTH, shared=True, **BY_KEY),
    "tokens": Configuration({}, **BY_TOKEN),
    "tokens and a shared key": Configuration(KEYS, ONE, shared=True, **BY_TOKEN),
    "tokens and control-plane keys": Configuration(CONTROL, **BY_BOTH),
    "everything": Configuration(KEYS | TENANTS | CONTROL, BOTH, shared=True, **BY_BOTH),
}


def credentials(issuer):
    """Name -> what it is worth, and the header lines that bring it."""
    admin = issuer.token(roles=["admin"])
    user = issuer.token(roles=["user"], signer=ec_signer())
    foreign = rsa_signer("foreign").sign(
        {"iss": issuer.url, "aud": "smg", "exp": 1 << 40, "roles": ["admin"]}, kid="rsa"
    )
    good = {
        "shared": SHARED,
        "tenant": TENANT,
        "admin key": ADMIN,
        "user key": USER,
        "admin token": admin,
        "user token": user,
    }
    rows = {name: (name, [f"authorization: Bearer {secret}"]) for name, secret in good.items()}
    for name, secret in good.items():
        rows |= {
            f"{name} in lower case": (name, [f"authorization: bearer {secret}"]),
            f"{name} in capitals": (name, [f"AUTHORIZATION: BEARER {secret}"]),
            f"{name} and a blank": (name, [f"authorization: Bearer {secret} "]),  # which belongs to no field
            f"{name} by another scheme": (None, [f"authorization: Basic {secret}"]),
            f"{name} without a scheme": (None, [f"authorization: {secret}"]),
            f"{name} twice": (None, [f"authorization: Bearer {secret}"] * 2),
            f"{name} behind another": (None, ["authorization: Bearer other", f"authorization: Bearer {secret}"]),
            f"{name} behind two blanks": (None, [f"authorization: Bearer  {secret}"]),
            f"{name} and more": (None, [f"authorization: Bearer {secret}x"]),
            f"{name} but its end": (None, [f"authorization: Bearer {secret[:-1]}"]),
            f"{name} as x-api-key": (None, [f"x-api-key: {secret}"]),
            f"{name} in the proxy's header": (None, [f"proxy-authorization: Bearer {secret}"]),
        }
    return rows | {
        "none": (None, []),
        "an empty header": (None, ["authorization:"]),
        "an empty bearer": (None, ["authorization: Bearer "]),
        "a key's name": (None, ["authorization: Bearer a"]),
        "a key as it is configured": (None, [f"authorization: Bearer a:Ann:admin:{ADMIN}"]),
        "a token of somebody else": (None, [f"authorization: Bearer {foreign.decode()}"]),
        "an old token": (None, [f"authorization: Bearer {issuer.token(roles=['admin'], exp=1)}"]),
        "a token for somebody else": (None, [f"authorization: Bearer {issuer.token(roles=['admin'], aud='x')}"]),
        "a token that is none": (None, ["authorization: Bearer a.b.c"]),
        "dots": (None, ["authorization: Bearer .."]),
        "an oversized token": (None, [f"authorization: Bearer a.{'b' * MAX_TOKEN_BYTES}.c"]),
        "bytes that are no text": (None, ["authorization: Bearer \xff\xfe"]),
        "more than ASCII": (None, ["authorization: Bearer " + "schl\u00fcssel".encode().decode("latin-1")]),
        "the same in a token": (None, ["authorization: Bearer \xff.\xff.\xff"]),
    }


def expected(configuration, group, worth):
    """Who is refused, and how: None for who gets in, else the status and the realm."""
    if group == "public":
        return None
    if group == "serving":
        return None if not configuration.keys or worth in configuration.keys else (401, "smg")
    if configuration.admins:
        if worth in configuration.users:
            return 403, None
        return None if worth in configuration.admins else (401, "control-plane")
    if not configuration.keys:
        return None
    return None if configuration.shared and worth == "shared" else (401, "smg")


def complaint(answer, method, expectation, when_open):
    """What is wrong with an answer, or None."""
    status, realm = expectation or (when_open, None)
    challenge = answer.headers.get("www-authenticate")
    if (answer.status, challenge) != (status, None if realm is None else f'Bearer realm="{realm}"'):
        return f"{answer.status} {challenge}"
    if realm == "smg" and (answer.body or answer.headers["content-length"] != "0"):
        return f"has the body {answer.body}"
    if realm == "control-plane" or status == 403:
        if not answer.headers["content-type"].startswith("text/plain"):
            return f"is {answer.headers['content-type']}"
        if method != "HEAD" and not answer.body:
            return "has no body"
    return None


def target_of(path):
    """An address of a route."""
    return path.replace("{id}", "w1").replace("{*path}", "pause")


def rows_of(gateway):
    """The routes that a running gateway has."""
    return [(route.method, route.path) for route in gateway.gateway.server.handler._routes]


async def test_every_route_has_its_row(stage):
    gateway = await stage.gateway(enable_rl=True)
    assert sorted(rows_of(gateway)) == sorted(ROUTES)


async def test_without_the_rl_control_plane_its_routes_are_absent_for_everybody(stage):
    gateway = await stage.gateway(**KEYS, **CONTROL)
    absent = [row for row in rows_of(gateway) if row not in ROUTES]
    assert sorted(set(rows_of(gateway)) - set(absent)) == sorted(row for row in ROUTES if "/v1/rl" not in row[1])
    for method, path in absent:
        assert path.startswith("/v1/rl")
        answer = await gateway.ask(method, path.replace("{*rest}", "workers"))
        assert (answer.status, answer.body) == (404, b"")


@pytest.mark.parametrize("configuration", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
async def test_who_gets_in_where(stage, issuer, configuration):
    settings = configuration.settings | (issuer.settings if configuration.issuer else {})
    gateway = await stage.gateway(enable_rl=True, log_level="error", **settings)
    rows = [(method, path, *rest) for (method, path), rest in ROUTES.items()]
    rows += [("HEAD", path, *rest) for method, path, *rest in rows if method == "GET"]
    shown = credentials(issuer)
    wrong = []
    for method, path, group, when_open in rows:
        client = await gateway.connect()
        for name, (worth, headers) in shown.items():
            await client.send(method, target_of(path), b"{}" if method in {"POST", "PUT", "PATCH"} else None, headers)
            answer = await client.answer()
            if answer.headers.get("connection") == "close":
                await client.closed()
                client = await gateway.connect()
            found = complaint(answer, method, expected(configuration, group, worth), when_open)
            if found is not None:
                wrong.append(f"{method} {path} with {name}: {found}")
    assert wrong == []


@pytest.mark.parametrize(
    "target",
    [
        "/workers/",
        "//workers",
        "/WORKERS",
        "/./workers",
        "/x/../workers",
        "/%77orkers",
        "/workers%2f",
        "/workers;x",
        "workers",
    ],
)
async def test_no_other_spelling_of_a_path_leads_around_the_door(stage, target):
    gateway = await stage.gateway(**CONTROL)
    answer = await gateway.get(target)
    assert answer.status in {400, 401, 404}
    assert b'"total"' not in answer.body


async def test_a_wrong_method_tells_nothing_that_is_behind_the_door(stage):
    gateway = await stage.gateway(**KEYS, **CONTROL)
    for method in ("DELETE", "PUT", "PATCH", "OPTIONS", "TRACE"):
        answer = await gateway.ask(method, "/workers")
        assert (answer.status, answer.code) == (405, "method_not_allowed")


async def test_metrics_and_inference_are_no_admin_routes(stage):
    gateway = await stage.gateway(**CONTROL)
    assert (await gateway.chat(b"{}")).status == 400
    assert (await gateway.scrape()).text
    assert (await gateway.post(CHAT, b"{}", ["authorization: Bearer anybody's"])).status == 400
