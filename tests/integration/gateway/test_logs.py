"""Access lines, request ids, and what must never be in a log."""

import json
import re

import pytest

from smg.serving.accounts import CallAccounts
from support.bodies import CHAT, COMPLETIONS, GENERATE, MODEL, chat
from support.raw_engine import answers, resets
from support.waiting import until

LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +(DEBUG|INFO|WARN|ERROR) [\w:.]+: .*")

TRAFFIC = {
    "a success": ("POST", CHAT, chat(), 200, "INFO", "finished processing request"),
    "a refusal": ("POST", CHAT, chat(model="nobody"), 404, "WARN", "request failed with client error"),
    "an unknown path": ("GET", "/nowhere", None, 404, "WARN", "request failed with client error"),
    "a list": ("GET", "/workers", None, 200, "INFO", "finished processing request"),
}


@pytest.mark.parametrize(("method", "target", "body", "status", "level", "message"), TRAFFIC.values(), ids=TRAFFIC)
async def test_every_exchange_leaves_one_line(stage, method, target, body, status, level, message):
    gateway = await stage.gateway(await stage.raw_engine(answers()))
    answer = await gateway.ask(method, target, body)
    (line,) = gateway.access_lines(f'request_id="{answer.headers["x-request-id"]}"')
    assert LINE.fullmatch(line)
    assert f" {level} smg::response: {message} " in line
    assert f'method="{method}" path="{target}" status={status} latency_us=' in line


async def test_a_line_tells_the_worker_the_bytes_and_the_code(stage):
    engine = await stage.raw_engine(answers(200, b"x" * 321))
    gateway = await stage.gateway(engine)
    body = chat()
    await gateway.chat(body)
    await gateway.chat(chat(model="nobody"))
    served, refused = gateway.access_lines()
    assert f'worker="{engine.url}" request_bytes={len(json.dumps(body))} response_bytes=321' in served
    assert "error_code" not in served
    assert 'worker="" ' in refused
    assert refused.endswith('error_code="model_not_found"')


async def test_the_same_line_as_json(stage):
    engine = await stage.raw_engine(resets)
    gateway = await stage.gateway(engine, log_json=True, disable_retries=True)
    await gateway.chat(chat(), ["x-request-id: mine"])
    (line,) = [line for line in gateway.log_objects() if line["target"] == "smg::response"]
    assert line["level"] == "ERROR"
    assert line["message"] == "request failed with server error"
    assert (line["method"], line["path"], line["status"]) == ("POST", CHAT, 500)
    assert (line["request_id"], line["worker"]) == ("mine", engine.url)
    assert line["error_code"] == "call_upstream_request_error"
    assert isinstance(line["latency_us"], int)


@pytest.mark.parametrize("level", ["info", "debug"])
async def test_probes_are_seen_only_by_who_looks_closely(stage, level):
    gateway = await stage.gateway(log_level=level)
    for target in ("/health", "/liveness", "/readiness"):
        await gateway.get(target)
    assert len(gateway.access_lines("")) == (3 if level == "debug" else 0)


async def test_a_stream_is_logged_when_it_is_over(stage):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine)
    client = await gateway.send("POST", CHAT, chat(stream=True))
    call = await engine.call()
    await call.begin_stream()
    await client.head()
    assert gateway.access_lines() == []
    await call.event("hello")
    await call.end_stream()
    await until(gateway.access_lines)
    (line,) = gateway.access_lines()
    assert " response_bytes=13" in line


# --- request ids


@pytest.mark.parametrize(
    ("method", "path", "prefix"),
    [
        ("POST", CHAT, "chatcmpl-"),
        ("POST", COMPLETIONS, "cmpl-"),
        ("POST", GENERATE, "gnt-"),
        ("GET", "/health", "req-"),
    ],
)
async def test_a_request_without_an_id_gets_one_that_tells_its_route(stage, method, path, prefix):
    gateway = await stage.gateway()
    ids = {(await gateway.ask(method, path, b"{}")).headers["x-request-id"] for _ in range(3)}
    assert len(ids) == 3
    assert all(re.fullmatch(prefix + "[0-9A-Za-z]{24}", request_id) for request_id in ids)


@pytest.mark.parametrize("header", ["X-Request-ID", "x-correlation-id", "x-trace-id", "request-id"])
async def test_a_caller_s_id_is_kept_on_every_kind_of_answer(stage, header):
    gateway = await stage.gateway(await stage.raw_engine(answers()), api_key="the-right-key")
    key = "authorization: Bearer the-right-key"
    for method, path, body, headers in [
        ("POST", CHAT, chat(), [key]),
        ("POST", CHAT, b"{", [key]),
        ("POST", CHAT, chat(), []),
        ("GET", "/nowhere", None, []),
        ("GET", "/readiness", None, []),
    ]:
        answer = await gateway.ask(method, path, body, [*headers, f"{header}: my-id/1"])
        assert answer.headers["x-request-id"] == "my-id/1"


async def test_the_first_header_that_is_there_decides(stage):
    gateway = await stage.gateway(request_id_headers=("x-mine", "x-other"))
    for headers, begins_with in [
        (["x-other: b", "x-mine: a"], "a"),
        (["x-other: b"], "b"),
        (["x-request-id: c"], "req-"),
        (["x-mine: not visible", "x-other: b"], "req-"),
    ]:
        answer = await gateway.get("/health", headers)
        assert answer.headers["x-request-id"].startswith(begins_with)


@pytest.mark.parametrize("value", ["", "with blank", "x" * 129, "\xe9", "tab\there"])
async def test_an_id_that_is_none_is_replaced(stage, value):
    gateway = await stage.gateway()
    answer = await gateway.get("/health", [f"x-request-id: {value}"])
    assert answer.headers["x-request-id"].startswith("req-")


# --- what is not in a log

API_KEY = "api-key-3f1b9c"
WORKER_KEY = "worker-key-77aa01"
CALLER_KEY = "caller-key-c0ffee"
OTHER_SECRETS = ("query-secret-1", "cookie-secret-2", "body-secret-3", "answer-secret-4", "header-secret-5")


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
async def test_no_secret_reaches_log_or_metrics(stage, as_json):
    engine = await stage.raw_engine(answers(200, b'"answer-secret-4"'), answers(422, b'"answer-secret-4"'), resets)
    gateway = await stage.gateway(api_key=API_KEY, log_json=as_json, log_level="debug", retry_max_retries=2)
    key = f"authorization: Bearer {API_KEY}"
    worker = {"url": engine.url, "api_key": WORKER_KEY}
    worker_id = (await gateway.post("/workers", worker, [key])).json["worker_id"]
    await gateway.registered(1)
    headers = ["cookie: cookie-secret-2", "x-other: header-secret-5"]
    for authorization in (key, f"authorization: Bearer {CALLER_KEY}", f"authorization: Basic {CALLER_KEY}"):
        for _ in range(3):
            await gateway.post(f"{CHAT}?key=query-secret-1", chat("body-secret-3"), [authorization, *headers])
        await gateway.get("/v1/models?key=query-secret-1", [authorization, f"x-api-key: {CALLER_KEY}"])
    await gateway.chat(b'{"body-secret-3": ', [key])
    await gateway.chat(chat("x", temperature="body-secret-3"), [key])
    await gateway.get(f"/{API_KEY}/nowhere")
    await gateway.ask("PATCH", f"/workers/{worker_id}", {"api_key": WORKER_KEY, "priority": 1}, [key])
    await gateway.ask("PATCH", f"/workers/{worker_id}", {"api_key": WORKER_KEY, "priority": -1}, [key])
    await gateway.ask("PUT", f"/workers/{worker_id}", worker, [key])
    await gateway.post("/workers", {"url": "nonsense", "api_key": WORKER_KEY}, [key])
    shown = await gateway.get(f"/workers/{worker_id}", [key])
    await gateway.ask("DELETE", f"/workers/{worker_id}", None, [key])
    written = gateway.log() + (await gateway.scrape()).text + shown.body.decode()
    assert len(gateway.access_lines("") if not as_json else gateway.log_objects()) > 10
    for secret in (API_KEY, WORKER_KEY, CALLER_KEY, *OTHER_SECRETS):
        assert secret not in written, secret


async def test_a_caller_cannot_forge_a_line(stage):
    gateway = await stage.gateway()
    shown = {
        "/%0a2026-01-01%20INFO": "/%0a2026-01-01%20INFO",
        '/a"status=200"': r"/a\"status=200\"",
        "/back\\slash": r"/back\\slash",
    }
    for target in shown:
        await gateway.get(target, ['x-request-id: a"b\\c', "user-agent: \x85\xa0x"])
    assert all(LINE.fullmatch(line) for line in gateway.log().splitlines())
    for line, path in zip(gateway.access_lines(""), shown.values(), strict=True):
        assert f' path="{path}" status=404 ' in line
        assert r' request_id="a\"b\\c" ' in line


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
async def test_an_engine_cannot_forge_a_line(stage, as_json):
    name = 'm\r\n2026-01-01 00:00:00  INFO smg::response: forged "x" \u2028\x85\x1b[31m'
    engine = await stage.raw_engine(answers(), model=name)
    gateway = await stage.gateway(engine, log_json=as_json)
    await gateway.chat(chat(model=name))
    text = gateway.log()
    for char in "\r\u2028\x85\x1b":
        assert char not in text
    if as_json:
        (line,) = [line for line in gateway.log_objects() if line["message"] == "worker registered"]
        assert line["model"] == name
    else:
        assert all(LINE.fullmatch(line) for line in text.split("\n")[:-1])
        assert not any(line.startswith("2026-01-01 00:00:00  INFO smg::response: forged") for line in text.split("\n"))


async def test_a_start_says_what_is_open(stage):
    (line,) = [line for line in (await stage.gateway()).log().splitlines() if "security posture" in line]
    assert " WARN " in line
    assert "inference needs no key" in line
    assert "security posture" not in (await stage.gateway(api_key="the-right-key")).log()


async def test_a_fault_of_the_gateway_s_own_is_an_answer_and_a_traceback(stage, monkeypatch):
    engine = await stage.raw_engine(answers())
    gateway = await stage.gateway(engine)

    def breaks(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr(gateway.gateway.upstream, "link", breaks)
    answer = await gateway.chat(chat())
    assert (answer.status, answer.code) == (500, "internal_error")
    assert "a bug" not in answer.body.decode()
    log = gateway.log()
    assert "request failed inside the gateway" in log
    assert "RuntimeError: a bug" in log
    assert all(LINE.fullmatch(line) for line in log.splitlines())
    monkeypatch.undo()
    assert (await gateway.chat(chat(model=MODEL))).status == 200


async def test_a_fault_between_lease_and_sending_gives_the_lease_back(stage, monkeypatch):
    gateway = await stage.gateway(await stage.raw_engine(answers()))

    def breaks(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr(CallAccounts, "placed", breaks)
    assert (await gateway.chat(chat())).code == "internal_error"
    assert gateway.loads == [0]
