"""A whole run with secrets in every place there is, and a search for them in all that was written."""

import signal

import pytest

from support.bodies import CHAT, chat
from support.plain_http import ask, get, post
from support.processes import engine_process, launched
from support.waiting import eventually

API_KEY = "sk-gateway-0b5e1f"
WORKER_KEY = "sk-worker-9ad27c"
CALLER_KEY = "sk-caller-44c3d0"
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


@pytest.mark.parametrize("log_format", [[], ["--log-json"]], ids=["text", "json"])
def test_no_secret_is_written_anywhere(tmp_path, log_format):
    faults = ["--fault", f"kind=reset,path={CHAT},count=1", "--fault", f"kind=error,status=401,path={CHAT},count=1"]
    logs = tmp_path / "logs"
    flags = ["--log-dir", logs, "--log-level", "debug", "--retry-initial-backoff-ms", "1", *log_format]
    authorized = {"authorization": f"Bearer {API_KEY}"}
    pages = []
    with (
        engine_process("--model", "m", "--api-key", API_KEY) as static,
        engine_process("--model", "m", "--api-key", WORKER_KEY, *faults) as added,
        launched("--worker-urls", static, *flags, workers=1, SMG_API_KEY=API_KEY) as gateway,
    ):
        spec = {"url": added, "api_key": WORKER_KEY}
        worker = post(f"{gateway.url}/workers", spec, authorized).json
        eventually(lambda: gateway.readiness().json["healthy_workers"] == 2, "the added worker")
        for headers in (
            authorized,
            authorized,
            {"authorization": f"Bearer {CALLER_KEY}"},
            {"authorization": f"Basic {CALLER_KEY}", "x-api-key": CALLER_KEY, "cookie": f"session={CALLER_KEY}"},
        ):
            traffic(gateway, headers)
        get(f"{gateway.url}/{API_KEY}", authorized)
        for method, body in (
            ("PATCH", {"api_key": WORKER_KEY}),
            ("PUT", spec),
            ("PATCH", {"api_key": WORKER_KEY + "\n"}),
        ):
            pages.append(ask(method, f"{gateway.url}{worker['location']}", body, authorized).text)
        pages += [post(f"{gateway.url}/workers", {"url": f"nonsense:{BODY}", "api_key": WORKER_KEY}, authorized).text]
        pages += [get(f"{gateway.url}/workers", authorized).text, get(gateway.metrics_url).text]
        gateway.process.signal(signal.SIGTERM)
        assert gateway.process.wait() == 0
        files = [path.read_text() for path in logs.iterdir()]
        written = [gateway.process.stdout, gateway.process.stderr, *files, *pages]
    assert gateway_lines(written[0]) > 20
    assert gateway_lines(files[0]) > 20
    for secret in (API_KEY, WORKER_KEY, CALLER_KEY):
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
