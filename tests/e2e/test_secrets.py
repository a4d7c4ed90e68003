"""A whole run with secrets in every place there is, and a search for them in all that was written."""

import asyncio
import signal

import pytest

from support.bodies import CHAT, chat
from support.issuer import issuer_server
from support.plain_http import ask, get, post
from support.processes import engine_process, launched
from support.tokens import claims, rsa_signer
from support.waiting import eventually

API_KEY = "sk-gateway-0b5e1f"
WORKER_KEY = "sk-worker-9ad27c"
CALLER_KEY = "sk-caller-44c3d0"
TENANT_KEY = "sk-tenant-7e10fa"
ADMIN_KEY = "sk-admin-3b62d9"
USER_KEY = "sk-user-c58e21"
BODY = "words-of-a-user-81f2"


def traffic(gateway, headers):
    """Requests that are served, refused, retried and lost."""
    for body in (
        chat(BODY, max_tokens=2),
        chat(BODY, model="nobody"),
        chat(BODY, temperature=9),
        b'{"' + BODY.encode(),
    ):
        post(f"{gateway.url}{CHAT}?key={CALLER_KEY}", body, headers)
    get(f"{gateway.url}/v1/models", headers)
    get(f"{gateway.url}/nowhere?key={CALLER_KEY}", headers)


def bearing(credential):
    return {"authorization": f"Bearer {credential}"}


def tokens_of(issuer):
    """Tokens that are good, too old, for somebody else, not signed by the issuer, and nonsense."""
    return [
        issuer.token(roles=["admin"], email="a@secret.example"),
        issuer.token(roles=["user"]),
        issuer.token(roles=["admin"], exp=1),
        issuer.token(roles=["admin"], aud="somebody-else"),
        rsa_signer("foreign").sign(claims(issuer=issuer.url)).decode(),
        "sk-looks.like-a.token-5d2c",
    ]


def control_plane_traffic(gateway, credentials):
    """Uses of the control plane that are let in and refused, with credentials in every place there is."""
    for credential in credentials:
        for headers in (
            bearing(credential),
            {"authorization": f"Basic {credential}"},
            {"authorization": credential, "x-api-key": credential, "cookie": f"session={credential}"},
        ):
            get(f"{gateway.url}/workers", headers)
            get(f"{gateway.url}/v1/models", headers)
            get(f"{gateway.url}/nowhere", headers)
            post(f"{gateway.url}/workers", {"url": "nonsense"}, headers)
            post(f"{gateway.url}{CHAT}", chat(BODY, max_tokens=1), headers)


@pytest.mark.parametrize("log_format", [[], ["--log-json"]], ids=["text", "json"])
async def test_no_secret_is_written_anywhere(tmp_path, log_format):
    async with issuer_server() as issuer:
        await asyncio.to_thread(run_and_search, tmp_path / "logs", log_format, issuer)


def run_and_search(logs, log_format, issuer):
    faults = ["--fault", f"kind=reset,path={CHAT},count=1", "--fault", f"kind=error,status=401,path={CHAT},count=1"]
    flags = ["--log-dir", logs, "--log-level", "debug", "--retry-initial-backoff-ms", "1", *log_format]
    flags += ["--jwt-issuer", issuer.url, "--jwt-audience", "smg", "--tenant-api-key", f"red:{TENANT_KEY}"]
    flags += ["--control-plane-api-keys", f"a:Ann:admin:{ADMIN_KEY}", f"u:Uwe:user:{USER_KEY}"]
    authorized, administers = bearing(API_KEY), bearing(ADMIN_KEY)
    tokens = tokens_of(issuer)
    pages = []
    with (
        engine_process("--model", "m", "--api-key", API_KEY) as static,
        engine_process("--model", "m", "--api-key", WORKER_KEY, *faults) as added,
        launched("--worker-urls", static, *flags, workers=1, SMG_API_KEY=API_KEY) as gateway,
    ):
        spec = {"url": added, "api_key": WORKER_KEY}
        worker = post(f"{gateway.url}/workers", spec, administers).json
        eventually(lambda: gateway.readiness().json["healthy_workers"] == 2, "the added worker")
        for headers in (
            authorized,
            authorized,
            bearing(TENANT_KEY),
            bearing(CALLER_KEY),
            {"authorization": f"Basic {CALLER_KEY}", "x-api-key": CALLER_KEY, "cookie": f"session={CALLER_KEY}"},
        ):
            traffic(gateway, headers)
        for key in (API_KEY, TENANT_KEY, ADMIN_KEY, USER_KEY):
            get(f"{gateway.url}/{key}", authorized)
            get(f"{gateway.url}/workers/{key}", administers)
        assert [get(f"{gateway.url}/workers", bearing(token)).status for token in tokens] == [200, 403, *[401] * 4]
        control_plane_traffic(gateway, [API_KEY, TENANT_KEY, ADMIN_KEY, USER_KEY, *tokens])
        pages += [get(f"{gateway.url}/workers", bearing(token)).text for token in tokens]
        for method, body in (
            ("PATCH", {"api_key": WORKER_KEY}),
            ("PUT", spec),
            ("PATCH", {"api_key": WORKER_KEY + "\n"}),
        ):
            pages.append(ask(method, f"{gateway.url}{worker['location']}", body, administers).text)
        pages += [post(f"{gateway.url}/workers", {"url": f"nonsense:{BODY}", "api_key": WORKER_KEY}, administers).text]
        pages += [get(f"{gateway.url}/workers", administers).text, get(gateway.metrics_url).text]
        gateway.process.signal(signal.SIGTERM)
        assert gateway.process.wait() == 0
        files = [path.read_text() for path in logs.iterdir()]
        written = [gateway.process.stdout, gateway.process.stderr, *files, *pages]
    assert gateway_lines(written[0]) > 20
    assert gateway_lines(files[0]) > 20
    assert files[0].count("control_plane_audit") > 20
    parts = [part for token in tokens for part in token.split(".")]
    for secret in (API_KEY, WORKER_KEY, CALLER_KEY, TENANT_KEY, ADMIN_KEY, USER_KEY, *parts, "secret.example"):
        assert not [text for text in written if secret in text], secret
    assert not [text for text in (*written[:2], *files) if BODY in text]


def gateway_lines(log):
    """How many access lines a log has."""
    return log.count("smg::response")


def test_an_open_gateway_hands_a_caller_s_key_on_and_keeps_it_to_itself(tmp_path):
    with (
        engine_process("--model", "m", "--api-key", CALLER_KEY) as engine,
        launched("--worker-urls", engine, "--log-dir", tmp_path, "--log-level", "debug", workers=1) as gateway,
    ):
        assert post(f"{gateway.url}{CHAT}", chat(max_tokens=1)).status == 401
        served = post(f"{gateway.url}{CHAT}", chat(max_tokens=1), {"authorization": f"Bearer {CALLER_KEY}"})
        assert served.status == 200
        metrics = get(gateway.metrics_url).text
        gateway.process.signal(signal.SIGTERM)
        assert gateway.process.wait() == 0
        written = [gateway.written, metrics, *(path.read_text() for path in tmp_path.iterdir())]
    assert not [text for text in written if CALLER_KEY in text]
