"""What opens a session, and what does not."""

import asyncio

import pytest

from smg.serving.upstreams.realtime import HANDSHAKE_SECS
from support.bodies import CHAT, chat
from support.websocket import ACCEPT, CREDENTIAL, PATH, TARGET, UPGRADE, exactly, grant


def without(name):
    return [line for line in UPGRADE if not line.startswith(name)]


async def head_of(client):
    raw = await client.reader.readuntil(b"\r\n\r\n")
    line, *lines = raw[:-4].decode().split("\r\n")
    return int(line.split()[1]), dict(line.split(": ", 1) for line in lines)


async def test_a_session_is_granted_by_the_worker(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    offers = (
        "sec-websocket-protocol: one, two",
        "sec-websocket-extensions: permessage-deflate; client_max_window_bits",
    )
    client = await stage.ask(gateway, *offers, "cookie: secret", "x-request-id: abc")
    call = await speaker.call()
    assert call.path == TARGET
    assert call.headers["upgrade"] == "websocket"
    assert call.headers["sec-websocket-version"] == "13"
    assert [value for name, value in call.fields if name == "authorization"] == ["Bearer of-the-caller"]
    assert call.headers["sec-websocket-protocol"] == "one, two"
    assert call.headers["sec-websocket-extensions"] == "permessage-deflate; client_max_window_bits"
    assert "cookie" not in call.headers
    await grant(call, "sec-websocket-protocol: two", "sec-websocket-extensions: permessage-deflate", "x-own: no")
    status, headers = await head_of(client)
    assert status == 101
    assert headers["sec-websocket-accept"] == ACCEPT
    assert headers["sec-websocket-protocol"] == "two"
    assert headers["sec-websocket-extensions"] == "permessage-deflate"
    assert headers["x-smg-routed-worker-id"] == speaker.url
    assert headers["x-request-id"] == "abc"
    assert headers["connection"] == "Upgrade"
    assert "x-own" not in headers


async def test_nothing_is_promised_before_the_worker_has_answered(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    client = await stage.ask(gateway)
    call = await speaker.call()
    await call.answer(403, {"error": "no"}, "x-own: yes")
    answer = await client.answer()
    assert (answer.status, answer.json, answer.headers["x-own"]) == (403, {"error": "no"}, "yes")
    assert answer.worker == speaker.url
    await gateway.settled()


async def test_a_connection_serves_on_after_a_refusal(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    client = await stage.ask(gateway)
    await (await speaker.call()).answer(429)
    assert (await client.answer()).status == 429
    await client.send("GET", "/liveness")
    assert (await client.answer()).status == 200


@pytest.mark.parametrize(
    ("method", "target", "headers", "status"),
    [
        ("GET", TARGET, [], 426),
        ("GET", TARGET, without("upgrade"), 426),
        ("GET", TARGET, without("connection"), 400),
        ("GET", TARGET, [*without("sec-websocket-version"), "sec-websocket-version: 8"], 426),
        ("GET", TARGET, without("sec-websocket-key"), 400),
        ("GET", TARGET, [*without("sec-websocket-key"), "sec-websocket-key: c2hvcnQ="], 400),
        ("GET", PATH, UPGRADE, 400),
        ("GET", f"{PATH}?model=", UPGRADE, 400),
        ("GET", f"{PATH}?model=m&model=n", UPGRADE, 400),
        ("HEAD", TARGET, UPGRADE, 426),
        ("GET", TARGET, [*UPGRADE, "content-length: 0"], 101),
    ],
)
async def test_what_opens_no_session_reaches_no_worker(stage, method, target, headers, status):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    client = await gateway.connect()
    await client.send(method, target, None, [*headers, CREDENTIAL])
    if status == 101:
        await grant(await speaker.call())
        assert (await head_of(client))[0] == 101
        return
    answer = await client.answer()
    assert (answer.status, speaker.calls) == (status, [])
    assert answer.headers["content-type"].startswith("text/plain")


async def test_an_upgrade_has_no_body(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    answer = await gateway.ask("GET", TARGET, b"body", [*UPGRADE, CREDENTIAL])
    assert (answer.status, speaker.calls) == (400, [])


@pytest.mark.parametrize(
    "headers",
    [("sec-websocket-protocol: three",), ("sec-websocket-extensions: permessage-deflate",)],
    ids=["subprotocol", "extension"],
)
async def test_a_choice_that_was_not_offered_is_no_handshake(stage, headers):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    client = await stage.ask(gateway)
    await grant(await speaker.call(), *headers)
    assert (await client.answer()).code == "realtime_request_failed"


@pytest.mark.parametrize("early", [b"", b"early"])
@pytest.mark.parametrize("line", ["content-length: 0", "content-length: 5", "transfer-encoding: chunked"])
async def test_a_grant_has_no_body_and_its_connection_is_nobody_else_s(stage, line, early):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    client = await stage.ask(gateway)
    session = await speaker.call()
    await grant(session, line, early=early)
    assert (await head_of(client))[0] == 101
    await gateway.send("POST", CHAT, chat())
    call = await speaker.call()
    await session.write(b"late")
    assert await exactly(client, len(early) + 4) == early + b"late"
    await client.write(b"up")
    assert await exactly(session, 2) == b"up"
    await call.answer()


async def test_a_worker_that_names_an_empty_choice_chooses_nothing(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    client = await stage.ask(gateway)
    await grant(await speaker.call(), "sec-websocket-protocol:", "sec-websocket-extensions:")
    status, headers = await head_of(client)
    assert status == 101
    assert not {"sec-websocket-protocol", "sec-websocket-extensions"} & set(headers)


async def test_an_answer_to_another_key_is_no_handshake(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    client = await stage.ask(gateway)
    await grant(await speaker.call(), accept=ACCEPT)
    answer = await client.answer()
    assert (answer.status, answer.code) == (502, "realtime_request_failed")
    await gateway.settled()


async def test_a_worker_that_cannot_be_reached_is_a_bad_gateway(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    await speaker.stop()
    answer = await (await stage.ask(gateway)).answer()
    assert (answer.status, answer.code) == (502, "realtime_request_failed")


async def test_a_worker_that_does_not_answer_in_time_is_let_go(stage, monkeypatch):
    monkeypatch.setattr("smg.serving.upstreams.realtime.HANDSHAKE_SECS", 0.1)
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    client = await stage.ask(gateway)
    call = await speaker.call()
    answer = await client.answer()
    assert (answer.status, answer.code) == (504, "call_upstream_timeout")
    await call.abandoned()
    await gateway.settled()


async def test_the_time_for_the_handshake_ends_with_it(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    client, call = await stage.session(gateway, speaker)
    later = asyncio.get_running_loop().time() + 100 * HANDSHAKE_SECS
    for pool in gateway.gateway.upstream.pools:
        pool.sweep(later)
    await client.write(b"still here")
    assert await exactly(call, 10) == b"still here"


async def test_the_key_of_the_worker_fills_in_and_without_any_there_is_no_session(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker, worker={"api_key": "of-the-worker"})
    client = await gateway.connect()
    await client.send("GET", TARGET, None, UPGRADE)
    call = await speaker.call()
    assert call.headers["authorization"] == "Bearer of-the-worker"
    await grant(call)
    assert (await head_of(client))[0] == 101
    keyless = await stage.speaking(await stage.speaker())
    answer = await keyless.get(TARGET, UPGRADE)
    assert answer.status == 401
    assert "www-authenticate" in answer.headers


@pytest.mark.parametrize("labels", [{"realtime": "false"}, {"zone": "eu"}])
async def test_only_labelled_workers_get_sessions(stage, labels):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker, labels=labels)
    answer = await (await stage.ask(gateway)).answer()
    assert (answer.status, answer.code, speaker.calls) == (503, "service_unavailable", [])


async def test_a_model_nobody_serves_is_not_found(stage):
    gateway = await stage.speaking(await stage.speaker())
    answer = await (await stage.ask(gateway, target=f"{PATH}?model=other")).answer()
    assert (answer.status, answer.code) == (404, "model_not_found")


async def test_the_worker_is_asked_for_its_own_name_of_the_model(stage):
    speaker = await stage.speaker(model="org/m 1")
    gateway = await stage.speaking(speaker, model_alias=("voice=org/m 1",))
    await stage.ask(gateway, target=f"{PATH}?intent=x&model=voice")
    call = await speaker.call()
    assert call.path == f"{PATH}?model=org/m%201"
    await call.answer(404)


async def test_sessions_go_where_the_fewest_are(stage):
    async def stays(call):
        await grant(call)
        await call.abandoned()

    speakers = [await stage.raw_engine(stays, gets=PATH) for _ in range(3)]
    gateway = await stage.speaking(*speakers)
    for count in (1, 2):
        for _ in speakers:
            client = await stage.ask(gateway, "x-smg-routing-key: always-the-same")
            assert (await head_of(client))[0] == 101
        assert [gateway.worker(speaker).load for speaker in speakers] == [count] * 3
