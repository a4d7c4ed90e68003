"""The routes beside the sessions: what creates them, and calls."""

import json

import pytest

from smg.serving.endpoints.realtime_http import MAX_CALL_BYTES
from support.forms import FORM, form, part, parts_of
from support.raw_engine import answers
from support.websocket import CREDENTIAL

SDP = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n"
SDP_TYPE = "content-type: application/sdp"
CALLS = "/v1/realtime/calls"
ROUTES = {
    "/v1/realtime/sessions": '{"type":"realtime","model":"%s","temperature":0.80}',
    "/v1/realtime/client_secrets": '{"expires":1e3,"session":{"type":"realtime","model":"%s","speed":1.0}}',
    "/v1/realtime/transcription_sessions": '{"type":"transcription","model":"%s","noise":{"x":1.50}}',
}
LABELS = ["realtime_sessions", "realtime_client_secrets", "realtime_transcription"]


@pytest.mark.parametrize(("path", "endpoint"), [*zip(ROUTES, LABELS, strict=True)])
async def test_what_a_worker_creates_is_relayed(stage, path, endpoint):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker, model_alias=("voice=m",))
    for name in ("m", "voice"):
        client = await gateway.send("POST", path, (ROUTES[path] % name).encode(), [CREDENTIAL, "cookie: c"])
        call = await speaker.call()
        assert (call.path, call.body.decode()) == (path, ROUTES[path] % "m")
        assert call.headers["authorization"] == "Bearer of-the-caller"
        assert call.headers["content-type"] == "application/json"
        assert "cookie" not in call.headers
        await call.answer(201, {"id": "sess"}, "content-type: application/vnd.made+json")
        answer = await client.answer()
        assert (answer.status, answer.json) == (201, {"id": "sess"})
        assert answer.headers["content-type"] == "application/vnd.made+json"
    scrape = await gateway.scrape()
    assert scrape.value("smg_router_requests_total", endpoint=endpoint, connection_mode="http", model="m") == 2


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"{}", b'{"model":"m"}', b'{"type":"realtime"}'])
async def test_what_does_not_say_enough_is_refused(stage, path, body):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    answer = await gateway.post(path, body, [CREDENTIAL])
    assert (answer.status, answer.json["error"]["code"]) == (400, "json_parse_error")
    assert speaker.calls == []


async def test_two_models_are_ambiguous(stage):
    gateway = await stage.speaking(await stage.speaker())
    answer = await gateway.post("/v1/realtime/sessions", b'{"type":"x","model":"m","model":"n"}', [CREDENTIAL])
    assert answer.status == 400


@pytest.mark.parametrize("path", ROUTES)
async def test_without_any_credential_nothing_is_created(stage, path):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    answer = await gateway.post(path, (ROUTES[path] % "m").encode())
    assert (answer.status, speaker.calls) == (401, [])


async def test_a_worker_that_is_down_is_a_bad_gateway_and_not_asked_twice(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    await speaker.stop()
    answer = await gateway.post("/v1/realtime/sessions", (ROUTES["/v1/realtime/sessions"] % "m").encode(), [CREDENTIAL])
    assert (answer.status, answer.code) == (502, "realtime_request_failed")
    assert (await gateway.scrape()).value("smg_worker_retries_total") == 0


async def test_an_error_of_the_worker_is_relayed_after_one_attempt(stage):
    speaker = await stage.raw_engine(answers(500, {"error": "broken"}))
    gateway = await stage.speaking(speaker)
    answer = await gateway.post("/v1/realtime/sessions", (ROUTES["/v1/realtime/sessions"] % "m").encode(), [CREDENTIAL])
    assert (answer.status, answer.json, len(speaker.calls)) == (500, {"error": "broken"}, 1)


# --- calls


async def test_an_offer_and_its_answer_are_relayed(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker, model_alias=("voice=m",))
    client = await gateway.send("POST", f"{CALLS}?x=1&model=voice", SDP.encode(), [SDP_TYPE, CREDENTIAL])
    call = await speaker.call()
    assert (call.path, call.body.decode()) == (f"{CALLS}?model=m", SDP)
    assert call.headers["content-type"] == "application/sdp"
    await call.answer(201, b"v=0 answer", SDP_TYPE, "location: /v1/realtime/calls/rtc_1")
    answer = await client.answer()
    assert (answer.status, answer.body) == (201, b"v=0 answer")
    assert answer.headers["location"] == "/v1/realtime/calls/rtc_1"
    assert answer.headers["content-type"] == "application/sdp"
    scrape = await gateway.scrape()
    labels = {"connection_mode": "webrtc", "endpoint": "realtime", "model": "m", "streaming": "false"}
    assert scrape.value("smg_router_requests_total", **labels) == 1


@pytest.mark.parametrize("name", ["m", "voice"])
async def test_a_form_is_rebuilt_with_the_name_that_the_worker_knows(stage, name):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker, model_alias=("voice=m",))
    session = '{"type":"realtime","model":"%s","speed":1.50,"text":"' + "x" * 100_000 + '"}'
    body = form(part("session", session % name), part("extra", "?"), part("sdp", SDP))
    client = await gateway.send("POST", CALLS, body, [FORM, CREDENTIAL])
    call = await speaker.call()
    assert call.path == CALLS
    fields = parts_of(call.headers["content-type"], call.body)
    assert fields == [("sdp", None, SDP.encode()), ("session", None, (session % "m").encode())]
    await call.answer(201, b"v=0", SDP_TYPE)
    assert (await client.answer()).status == 201


SESSION = part("session", json.dumps({"type": "realtime", "model": "m"}))
OFFER = part("sdp", SDP)


@pytest.mark.parametrize(
    ("target", "content_type", "body", "code"),
    [
        (CALLS, "content-type: text/plain", SDP.encode(), "invalid_content_type"),
        (CALLS, SDP_TYPE, SDP.encode(), "missing_model"),
        (f"{CALLS}?model=m&model=n", SDP_TYPE, SDP.encode(), "missing_model"),
        (f"{CALLS}?model=m", SDP_TYPE, b"", "missing_sdp"),
        (f"{CALLS}?model=m", SDP_TYPE, b"v=1\r\n", "invalid_sdp"),
        (f"{CALLS}?model=m", SDP_TYPE, b"v=0\r\n\xff", "invalid_sdp"),
        (CALLS, "content-type: multipart/form-data", form(OFFER, SESSION), "invalid_multipart"),
        (CALLS, FORM, b"", "malformed_multipart"),
        (CALLS, FORM, form(OFFER, SESSION)[:-8], "malformed_multipart"),
        (CALLS, FORM, form(OFFER, OFFER, SESSION), "malformed_multipart"),
        (CALLS, FORM, form(SESSION), "missing_sdp"),
        (CALLS, FORM, form(OFFER), "missing_model"),
        (CALLS, FORM, form(OFFER, part("session", "{}")), "missing_model"),
        (CALLS, FORM, form(OFFER, part("session", '{"model":""}')), "missing_model"),
        (CALLS, FORM, form(OFFER, part("session", "{broken")), "invalid_session_json"),
        (CALLS, FORM, form(OFFER, part("session", '{"model":1}')), "invalid_session_json"),
    ],
)
async def test_a_call_that_says_too_little_is_refused_with_its_reason(stage, target, content_type, body, code):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    answer = await gateway.post(target, body, [content_type, CREDENTIAL])
    assert (answer.status, answer.code, speaker.calls) == (400, code, [])


async def test_a_call_is_bounded(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    client = await gateway.send(
        "POST", f"{CALLS}?model=m", b"v=0\r\n", [SDP_TYPE, CREDENTIAL], length=MAX_CALL_BYTES + 1
    )
    assert (await client.answer()).code == "request_body_too_large"
    assert speaker.calls == []
