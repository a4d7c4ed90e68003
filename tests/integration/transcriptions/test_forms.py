"""A form reaches a worker rebuilt, or nobody: what is forwarded, what is refused, and who is asked."""

import pytest

from smg.config.options import POLICY_NAMES
from support.bodies import MODEL
from support.forms import AUDIO, FORM, file, form, model, part, parts_of
from support.raw_engine import answers, resets, streams

TEXT = b'{"text":"hello"}'
LARGE = bytes(range(256)) * 3 * 4096  # on disk, and no multiple of a piece


def sent_to(engine):
    """The form of the engine's last call."""
    call = engine.calls[-1]
    return parts_of(call.headers["content-type"], call.body)


@pytest.mark.parametrize("audio", [AUDIO, LARGE], ids=["small", "large"])
async def test_a_worker_gets_the_file_and_what_it_knows(stage, audio):
    engine = await stage.raw_engine(answers(200, TEXT))
    gateway = await stage.gateway(engine, model_alias=("asr=m",))
    body = form(file(audio, "звук 1.wav"), part("user", "u"), part("language", "de"), model("asr"))
    answer = await stage.transcribe(gateway, body)
    assert (answer.status, answer.body, answer.worker) == (200, TEXT, engine.url)
    assert answer.headers["x-request-id"].startswith("transcription-")
    assert sent_to(engine) == [
        ("model", None, b"m"),
        ("language", None, b"de"),
        ("file", "звук 1.wav", audio),
    ]
    (call,) = engine.calls
    assert (call.method, call.path) == ("POST", stage.path)
    assert "transfer-encoding" not in call.headers


async def test_a_form_in_chunks_is_a_form(stage):
    engine = await stage.raw_engine(answers(200, TEXT))
    gateway = await stage.gateway(engine)
    client = await gateway.connect()
    await client.send("POST", stage.path, None, [FORM, "transfer-encoding: chunked"])
    body = form(model(), file())
    for at in range(0, len(body), 50):
        piece = body[at : at + 50]
        await client.write(b"%x\r\n%b\r\n" % (len(piece), piece))
    await client.write(b"0\r\n\r\n")
    assert (await client.answer()).body == TEXT
    assert sent_to(engine)[-1] == ("file", "a.wav", AUDIO)


async def test_connections_on_both_sides_are_used_again(stage):
    engine = await stage.raw_engine(answers(200, TEXT))
    gateway = await stage.gateway(engine)
    client = await gateway.connect()
    for audio in (AUDIO, LARGE, AUDIO):
        await client.send("POST", stage.path, form(file(audio), model()), [FORM])
        assert (await client.answer()).body == TEXT
    assert engine.connections == 1


@pytest.mark.parametrize("audio", [AUDIO, LARGE], ids=["small", "large"])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda audio: form(file(audio), model())[:-5],
        lambda audio: form(file(audio)),
        lambda audio: form(file(audio), model(), part("stream", "maybe")),
        lambda audio: form(file(audio), model(), model("other")),
        lambda audio: form(file(audio), model(), file(b"x")),
    ],
)
async def test_a_bad_form_is_refused_in_plain_text_and_asks_nobody(stage, audio, spoil):
    engine = await stage.raw_engine(answers(200, TEXT))
    gateway = await stage.gateway(engine)
    answer = await stage.transcribe(gateway, spoil(audio))
    assert (answer.status, answer.headers["content-type"]) == (400, "text/plain; charset=utf-8")
    assert answer.body
    assert "x-smg-error-code" not in answer.headers
    assert engine.calls == []


async def test_one_attempt_is_all_there_is(stage):
    engines = [await stage.raw_engine(resets), await stage.raw_engine(resets)]
    gateway = await stage.gateway(*engines)
    answer = await stage.transcribe(gateway, form(file(LARGE), model()))
    assert (answer.status, answer.code) == (500, "call_upstream_request_error")
    failing = await stage.raw_engine(answers(503, b"busy", "content-type: text/plain"))
    other = await stage.gateway(failing)
    answer = await stage.transcribe(other, form(file(), model()))
    assert (answer.status, answer.body) == (503, b"busy")
    assert sum(len(engine.calls) for engine in engines) == len(failing.calls) == 1


async def test_a_stream_is_relayed(stage):
    engine = await stage.raw_engine(streams("he", "llo"))
    gateway = await stage.gateway(engine)
    answer = await stage.transcribe(gateway, form(file(), model(), part("stream", "true")))
    assert answer.events == ["he", "llo"]
    assert sent_to(engine)[1] == ("stream", None, b"true")
    scrape = await gateway.scrape()
    labels = {"endpoint": "audio_transcriptions", "streaming": "true", "model": MODEL}
    assert scrape.value("smg_router_requests_total", **labels) == 1


async def test_an_unknown_model_is_not_found(stage):
    engine = await stage.raw_engine(answers(200, TEXT))
    gateway = await stage.gateway(engine)
    answer = await stage.transcribe(gateway, form(file(LARGE), model("nobody's")))
    assert (answer.status, answer.code) == (404, "model_not_found")
    assert engine.calls == []


async def test_the_payload_limit_holds_for_forms(stage):
    engine = await stage.raw_engine(answers(200, TEXT))
    gateway = await stage.gateway(engine, max_payload_size=100_000)
    assert (await stage.transcribe(gateway, form(file(LARGE), model()))).code == "request_body_too_large"
    client = await gateway.connect()
    await client.send("POST", stage.path, None, [FORM, "transfer-encoding: chunked"])
    piece = form(file(LARGE), model())[:200_000]
    await client.write(b"%x\r\n%b\r\n" % (len(piece), piece))
    answer = await client.answer()
    assert (answer.status, answer.code) == (413, "request_body_too_large")
    assert engine.calls == []


async def test_keys_guard_the_route_and_the_worker_s_own_fills_in(stage):
    engine = await stage.raw_engine(answers(200, TEXT))
    gateway = await stage.gateway(engine, api_key="secret")
    body = form(file(), model())
    assert (await stage.transcribe(gateway, body)).status == 401
    assert (await stage.transcribe(gateway, body, "authorization: Bearer secret")).status == 200
    assert engine.calls[0].headers["authorization"] == "Bearer secret"
    open_ = await stage.gateway(ready=False)
    spec = {"url": engine.url, "api_key": "worker's", "models": [{"id": MODEL}]}
    assert (await open_.post("/workers", spec)).status == 202
    await open_.registered(1)
    assert (await stage.transcribe(open_, body)).status == 200
    assert engine.calls[1].headers["authorization"] == "Bearer worker's"


async def register(gateway, *specs):
    for spec in specs:
        assert (await gateway.post("/workers", {"models": [{"id": MODEL}], **spec})).status == 202
    await gateway.registered(len(specs))


async def test_a_provider_s_model_is_not_implemented(stage):
    engine = await stage.raw_engine(answers(200, TEXT))
    gateway = await stage.gateway(ready=False)
    await register(gateway, {"url": engine.url, "runtime_type": "external"})
    answer = await stage.transcribe(gateway, form(file(), model()))
    assert (answer.status, answer.code) == (501, "audio_transcriptions_not_supported")
    assert engine.calls == []


async def test_ranks_of_an_engine_are_left_out(stage):
    ranked = await stage.engine(dp_size=2)
    gateway = await stage.gateway(ranked, dp_aware=True, ready=False)
    await gateway.registered(2)
    answer = await stage.transcribe(gateway, form(file(), model()))
    assert (answer.status, answer.code) == (400, "dp_aware_not_supported")
    plain = await stage.raw_engine(answers(200, TEXT))
    assert (await gateway.post("/workers", {"url": plain.url, "models": [{"id": MODEL}]})).status == 202
    await gateway.registered(3)
    for _ in range(3):
        assert (await stage.transcribe(gateway, form(file(), model()))).worker == plain.url


async def test_a_tenant_s_requests_are_counted(stage, tmp_path):
    limits = tmp_path / "limits.yaml"
    limits.write_text("default_policy: {tokens_per_minute: 1000, requests_per_minute: 1}")
    engine = await stage.raw_engine(answers(200, TEXT))
    gateway = await stage.gateway(engine, tenant_rate_limit_enabled=True, tenant_rate_limit_config=str(limits))
    assert (await stage.transcribe(gateway, form(file(), model()))).status == 200
    answer = await stage.transcribe(gateway, form(file(), model()))
    assert (answer.status, answer.code) == (429, "tenant_rate_limit_exceeded")


@pytest.mark.parametrize("policy", POLICY_NAMES)
async def test_every_policy_places_a_transcription(stage, policy):
    engines = [await stage.raw_engine(answers(200, TEXT)) for _ in range(2)]
    gateway = await stage.gateway(*engines[: 1 if policy == "passthrough" else 2], policy=policy)
    assert (await stage.transcribe(gateway, form(file(), model()))).status == 200


async def test_a_sticky_session_keeps_its_worker(stage):
    engines = [await stage.raw_engine(answers(200, TEXT)) for _ in range(3)]
    gateway = await stage.gateway(*engines, routing_key_override=True)
    found = {(await stage.transcribe(gateway, form(file(), model()), "x-smg-routing-key: k")).worker for _ in range(6)}
    assert len(found) == 1
