"""What of a caller's request reaches an engine."""

import pytest

from support.raw_engine import answers

KEY = "authorization: Bearer shared"


@pytest.fixture
async def pair(stage):
    """An engine that answers, and a trainer."""
    engine = await stage.raw_engine(answers())
    return engine, await stage.plane(engine)


async def test_the_body_goes_through_byte_for_byte(pair):
    engine, trainer = pair
    for body in (b' {"a" : 1.50}\r\n', b"\x00\xff\r\n\r\n", b"0\r\n\r\n", b"x" * 3_000_000):
        assert (await trainer.call(engine, "op", body)).status == 200
        assert engine.calls[-1].body == body


async def test_a_body_in_chunks_goes_on_with_its_length(pair):
    engine, trainer = pair
    client = await trainer.gateway.connect()
    await client.send("POST", trainer.one(engine, "op"), None, ["transfer-encoding: chunked"])
    await client.write(b"3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n")
    assert (await client.answer()).status == 200
    (call,) = engine.calls
    assert (call.body, call.headers["content-length"], call.headers["content-type"]) == (
        b"abcdef",
        "6",
        "application/json",
    )
    assert "transfer-encoding" not in call.headers


async def test_without_a_body_there_is_none(pair):
    engine, trainer = pair
    await trainer.call(engine, "op")
    client = await trainer.gateway.connect()
    await client.send("POST", trainer.one(engine, "op"), None, ["transfer-encoding: chunked"])
    await client.write(b"0\r\n\r\n")
    assert (await client.answer()).status == 200
    for call in engine.calls:
        assert (call.body, call.headers["content-length"]) == (b"", "0")
        assert not {"content-type", "transfer-encoding"} & set(call.headers)


async def test_path_and_query_are_the_engines(pair):
    engine, trainer = pair
    await trainer.call(engine, "v1%2Fop?b=%2F&selector=x&a&&b=1&")
    assert engine.calls[0].path == "/v1/op?b=%2F&a&&b=1&"


async def test_the_engine_gets_its_own_key_and_never_the_callers(stage):
    static, keyed, keyless = [await stage.raw_engine(answers()) for _ in range(3)]
    trainer = await stage.plane(static, api_key="shared")
    for engine, spec in ((keyed, {"api_key": "own"}), (keyless, {})):
        answer = await trainer.gateway.post("/workers", {"url": engine.url, **spec}, [KEY])
        assert answer.status == 202
    await trainer.gateway.registered(3)
    answer = await trainer.fanout("op", "id!=x", b"{}", headers=[KEY, "cookie: a=b", "x-api-key: k", "traceparent: t"])
    assert (answer.status, answer.json["succeeded"]) == (200, 3)
    assert [engine.calls[0].headers.get("authorization") for engine in (static, keyed, keyless)] == [
        "Bearer shared",
        "Bearer own",
        None,
    ]
    for engine in (static, keyed, keyless):
        assert set(engine.calls[0].headers) - {"authorization"} == {
            "host",
            "accept",
            "content-type",
            "content-length",
            "traceparent",
        }
    assert "shared" not in trainer.gateway.log()


@pytest.mark.parametrize("headers", [(), ("authorization: Bearer tenant",), ("authorization: Bearer wrong",)])
async def test_only_the_shared_key_opens_it(stage, headers):
    engine = await stage.raw_engine(answers())
    trainer = await stage.plane(engine, api_key="shared", tenant_api_key=("a:tenant",))
    for target in ("/v1/rl/workers", trainer.one(engine, "op"), trainer.every("op", "id!=x")):
        assert (await trainer.gateway.get(target, headers)).status == 401
    assert (await trainer.gateway.get("/v1/rl/workers", [KEY])).status == 200
    assert engine.calls == []


async def test_a_body_beyond_the_limit_reaches_nobody(stage):
    engine = await stage.raw_engine(answers())
    trainer = await stage.plane(engine, max_payload_size=1000)
    assert (await trainer.call(engine, "op", b"x" * 1000)).status == 200
    assert (await trainer.call(engine, "op", b"x" * 1001)).status == 413
    client = await trainer.gateway.connect()
    await client.send("POST", trainer.every("op", "id!=x"), None, ["transfer-encoding: chunked"])
    await client.write(b"3e9\r\n" + b"x" * 1001 + b"\r\n0\r\n\r\n")
    assert (await client.answer()).status == 413
    assert len(engine.calls) == 1


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "BREW"])
async def test_other_methods_are_refused(pair, method):
    engine, trainer = pair
    for target in (trainer.one(engine, "op"), trainer.every("op", "id!=x")):
        answer = await trainer.gateway.ask(method, target)
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, POST")
    assert engine.calls == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_while_it_is_off_there_is_nothing(stage, method):
    engine = await stage.raw_engine(answers())
    gateway = await stage.gateway(engine, api_key="shared")
    for path in ("/v1/rl", "/v1/rl/workers", "/v1/rl/engine/op?selector=id!%3Dx", "/v1/rl/a//b/"):
        answer = await gateway.ask(method, path)
        assert (answer.status, answer.body) == (404, b"")
        assert "content-type" not in answer.headers
    assert engine.calls == []
    assert "smg_rl_" not in "".join(sample.name for sample in (await gateway.scrape()).samples)
