"""Tokens of a running issuer: its keys change, it fails, it lies, and nobody else has to wait for it."""

import asyncio

import pytest

from support.issuer import DISCOVERY_PATH, JWKS_PATH, issuer_server
from support.raw_engine import answers
from support.tokens import ec_signer, key_set, rsa_signer
from support.waiting import until

CONTROL = {"control_plane_api_keys": ("a:Ann:admin:admin-key", "u:Uwe:user:user-key")}
ADMIN_KEY = ["authorization: Bearer admin-key"]
UNKNOWN = b"Invalid JWT: its key is not known, or not for its algorithm"
FAILED = "signing keys of the issuer could not be fetched"


@pytest.fixture
def at_once(monkeypatch):
    """No time must pass between two questions to the issuer."""
    monkeypatch.setattr("smg.services.signing_keys.RETRY_SECS", 0.0)
    monkeypatch.setattr("smg.services.signing_keys.FIRST_RETRY_SECS", 0.0)


def bearing(token):
    return [f"authorization: Bearer {token}"]


async def use(gateway, token):
    """The answer of an admin route to a token."""
    return await gateway.get("/workers", bearing(token))


def admin(issuer, **changed):
    return issuer.token(roles=["admin"], **changed)


@pytest.mark.parametrize("signer", [rsa_signer(), ec_signer()], ids=["RSA", "EC"])
@pytest.mark.parametrize("discovers", [True, False])
async def test_an_administrator_s_token_opens_admin_routes(stage, issuer, signer, discovers):
    where = {} if discovers else {"jwt_jwks_uri": issuer.url + JWKS_PATH}
    gateway = await stage.gateway(**issuer.settings, **where)
    assert (await use(gateway, admin(issuer, signer=signer))).status == 200
    assert issuer.asked == ([DISCOVERY_PATH] if discovers else []) + [JWKS_PATH]


@pytest.mark.parametrize(("role", "status"), [("Ops", 200), ("Dev", 403), ("admin", 403), ("ops", 403)])
async def test_roles_of_the_issuer_are_mapped(stage, issuer, role, status):
    gateway = await stage.gateway(**issuer.settings, jwt_role_mapping=("Ops=admin", "Dev=user"))
    assert (await use(gateway, issuer.token(groups=[role]))).status == status


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"exp": 1}, b"it has expired"),
        ({"nbf": 1 << 40}, b"it is not valid yet"),
        ({"aud": "other"}, b"it is for another audience"),
        ({"iss": "https://hush"}, b"it is from another issuer"),
        ({"exp": None}, b"it lacks a claim: exp, iss and aud are needed"),
    ],
)
async def test_a_refusal_says_what_is_wrong_and_nothing_of_the_token(stage, issuer, changed, reason):
    gateway = await stage.gateway(**issuer.settings)
    answer = await use(gateway, admin(issuer, sub="hush", **changed))
    assert (answer.status, answer.body) == (401, b"Invalid JWT: " + reason)
    assert answer.headers["www-authenticate"] == 'Bearer realm="control-plane"'


# --- keys that change


async def test_a_new_key_opens_with_its_first_token_and_an_old_one_no_more(stage, issuer, at_once):
    gateway = await stage.gateway(**issuer.settings)
    old, new = admin(issuer), admin(issuer, signer=ec_signer("new"))
    assert (await use(gateway, old)).status == 200
    issuer.publish(key_set(ec_signer("new")))
    assert (await use(gateway, old)).status == 200
    assert (await use(gateway, new)).status == 200
    answer = await use(gateway, old)
    assert (answer.status, answer.body) == (401, UNKNOWN)


async def test_unknown_keys_do_not_make_the_gateway_ask_again_and_again(stage, issuer):
    gateway = await stage.gateway(**issuer.settings)
    assert (await use(gateway, admin(issuer))).status == 200
    for number in range(20):
        answer = await use(gateway, admin(issuer, signer=ec_signer(f"made up {number % 3}")))
        assert (answer.status, answer.body) == (401, UNKNOWN)
    assert issuer.asked == [DISCOVERY_PATH, JWKS_PATH]


async def test_a_token_s_own_key_and_address_are_not_believed(stage, issuer, at_once):
    gateway = await stage.gateway(**issuer.settings)
    foreign = rsa_signer("foreign")
    async with issuer_server() as elsewhere:
        elsewhere.publish(key_set(foreign))
        claims = {"iss": issuer.url, "aud": "smg", "exp": 1 << 40, "roles": ["admin"]}
        leading = foreign.sign(claims, jku=elsewhere.url + JWKS_PATH, jwk=foreign.jwk()).decode()
        assert (await use(gateway, leading)).body == UNKNOWN
        assert elsewhere.asked == []


# --- an issuer in trouble


@pytest.mark.parametrize("path", [DISCOVERY_PATH, JWKS_PATH])
async def test_a_redirect_is_not_followed(stage, issuer, path):
    async with issuer_server() as elsewhere:
        issuer.redirect(path, elsewhere.url + path)
        gateway = await stage.gateway(**issuer.settings)
        answer = await use(gateway, admin(issuer))
        assert (answer.status, answer.body) == (401, UNKNOWN)
        assert elsewhere.asked == []
    assert FAILED in gateway.log()
    assert "answers 302" in gateway.log()


@pytest.mark.parametrize("jwks_uri", ["http://keys.example/jwks", "file:///etc/keys", "not a url", 5])
async def test_keys_in_a_place_that_cannot_be_trusted_are_not_fetched(stage, issuer, jwks_uri):
    issuer.publish({"issuer": issuer.url, "jwks_uri": jwks_uri}, DISCOVERY_PATH)
    gateway = await stage.gateway(**issuer.settings)
    assert (await use(gateway, admin(issuer))).body == UNKNOWN
    assert issuer.asked == [DISCOVERY_PATH]


BROKEN = {
    "no JSON": b"<html>",
    "no keys": b'{"keys":[]}',
    "nonsense": b'{"keys":[{"kid":"rsa","kty":"RSA","n":5,"key_ops":5}]}',
    "too much": b" " * (2 << 20),
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
async def test_an_issuer_that_recovers_is_believed_again(stage, issuer, at_once, body):
    sound = issuer.answers[JWKS_PATH]
    issuer.answers[JWKS_PATH] = 200, [], body
    gateway = await stage.gateway(**issuer.settings)
    assert (await use(gateway, admin(issuer))).body == UNKNOWN
    issuer.answers[JWKS_PATH] = sound
    assert (await use(gateway, admin(issuer))).status == 200
    assert FAILED in gateway.log()


async def test_nobody_but_new_tokens_waits_for_an_issuer(stage, issuer):
    issuer.answering.clear()
    gateway = await stage.gateway(await stage.raw_engine(answers()), **issuer.settings, **CONTROL)
    waiting = [await gateway.send("GET", "/workers", None, bearing(admin(issuer))) for _ in range(5)]
    await until(lambda: gateway.in_flight == 5, "five tokens that wait")
    assert (await gateway.get("/workers", ADMIN_KEY)).status == 200
    assert (await use(gateway, "not.a.token")).status == 401
    assert (await gateway.chat({"model": "m", "messages": [{"role": "user", "content": "hello"}]})).status == 200
    issuer.answering.set()
    assert [(await client.answer()).status for client in waiting] == [200] * 5
    assert issuer.asked == [DISCOVERY_PATH, JWKS_PATH]


async def test_a_caller_may_leave_while_its_token_waits(stage, issuer):
    issuer.answering.clear()
    gateway = await stage.gateway(**issuer.settings)
    leaver = await gateway.send("GET", "/workers", None, bearing(admin(issuer)))
    await until(lambda: gateway.in_flight == 1, "a token that waits")
    leaver.reset()
    await gateway.settled()
    issuer.answering.set()
    assert (await use(gateway, admin(issuer))).status == 200


async def test_a_gateway_ends_while_its_issuer_is_silent(stage, issuer):
    issuer.answering.clear()
    gateway = await stage.gateway(**issuer.settings)
    await until(lambda: issuer.asked, "the first question")
    await gateway.gateway.close()
    issuer.answering.set()


# --- what is recorded, and what stays here


async def test_who_used_the_control_plane_is_in_the_log(stage, issuer):
    gateway = await stage.gateway(**issuer.settings, **CONTROL, log_json=True)
    token = admin(issuer, sub="ann\u2028\x1b[31m\ud800")
    for headers in (ADMIN_KEY, ["authorization: Bearer user-key"], bearing(token), []):
        await gateway.get("/workers?key=hush", [*headers, "x-request-id: mine"])
    await gateway.get("/v1/models", ADMIN_KEY)
    events = [line for line in gateway.log_objects() if line["message"] == "control_plane_audit"]
    assert [(event["auth_method"], event["role"], event["outcome"]) for event in events] == [
        ("api_key", "admin", "success"),
        ("api_key", "user", "denied"),
        ("jwt", "admin", "success"),
        ("none", "none", "denied"),
    ]
    assert [event["principal"] for event in events[:2]] == ["a", "u"]
    assert all((event["path"], event["request_id"]) == ("/workers", "mine") for event in events)
    for secret in ("admin-key", "user-key", token, token.split(".")[2], "hush"):
        assert secret not in gateway.log()


async def test_nothing_is_recorded_where_nobody_wants_it(stage):
    gateway = await stage.gateway(**CONTROL, control_plane_audit_enabled=False)
    assert (await gateway.get("/workers", ADMIN_KEY)).status == 200
    assert "control_plane_audit" not in gateway.log()


async def test_a_credential_of_the_control_plane_is_not_shown_to_engines(stage, issuer):
    engine = await stage.raw_engine(answers())
    gateway = await stage.gateway(engine, **issuer.settings, **CONTROL, enable_rl=True)
    worker = gateway.worker(engine).id
    for headers in (ADMIN_KEY, bearing(admin(issuer))):
        for target in ("/flush_cache", f"/v1/rl/workers/{worker}/engine/op"):
            assert (await gateway.post(target, b"{}", headers)).status == 200
    assert len(engine.calls) == 4
    assert not [call for call in (*engine.calls, *engine.asked) if "authorization" in call.headers]


async def test_ten_bad_tokens_at_once_are_ten_refusals(stage, issuer):
    gateway = await stage.gateway(**issuer.settings)
    found = await asyncio.gather(*(use(gateway, f"a{number}.b.c") for number in range(10)))
    assert [answer.status for answer in found] == [401] * 10
