import json

import pytest

from smg.fleet.spec import WorkerSpec
from smg.services.inspection import Inspection, Inspector, known_runtime

URL = "http://h:1"


def spec(**fields):
    return WorkerSpec(url=fields.pop("url", URL), **fields)


def models(owner="someone", **card):
    return 200, json.dumps({"data": [{"id": "m", "owned_by": owner, **card}]}).encode()


@pytest.fixture
def inspector(engines, clock):
    return Inspector(engines, timeout_secs=5, sleep=clock.sleep)


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        (200, None),
        (204, None),
        (302, "status 302"),
        (404, "status 404"),
        (503, "status 503"),
        ("down", "connection refused"),
        ("silent", "no answer within 5 s"),
    ],
)
async def test_an_engine_is_up_when_its_health_route_is_good(inspector, engines, answer, trouble):
    engines.answers[URL + "/health"] = answer
    assert await inspector.trouble(URL) == trouble
    assert engines.calls == [(URL + "/health", None)]


async def test_an_engine_is_asked_with_its_key_and_nothing_twice(inspector, engines):
    engines.answers[URL + "/v1/models"] = models("sglang")
    engines.answers[URL + "/server_info"] = 200, b'{"tp_size": 2}'
    found = await inspector.inspect(spec(api_key="key"))
    assert found == Inspection("sglang", {"served_model_name": "m", "tp_size": "2"})
    assert {key for _, key in engines.calls} == {"key"}
    assert len(engines.calls) == len(set(engines.calls))


async def test_a_given_runtime_is_not_questioned(inspector, engines):
    engines.answers[URL + "/v1/models"] = models("sglang")
    engines.answers[URL + "/version"] = 200, b'{"version": "1"}'
    found = await inspector.inspect(spec(runtime_type="vllm"))
    assert found == Inspection("vllm", {"served_model_name": "m", "version": "1"})


async def test_an_engine_that_tells_nothing_is_treated_as_sglang_at_once(inspector, clock):
    assert await inspector.inspect(spec()) == Inspection("sglang", {})
    assert clock.slept == []


@pytest.mark.parametrize("answer", ["down", "silent", 500, 503])
async def test_an_engine_that_stumbles_is_asked_three_times(inspector, engines, clock, answer):
    engines.answers[URL + "/v1/models"] = models("vllm")
    engines.answers[URL + "/version"] = answer
    found = await inspector.inspect(spec())
    assert found == Inspection("vllm", {"served_model_name": "m"})
    assert engines.paths(URL) == ["/v1/models", "/version", "/version", "/version"]
    assert len(clock.slept) == 2


async def test_an_engine_that_comes_to_its_senses_is_read_in_full(inspector, engines, clock):
    answers = iter(["down", models("vllm", max_model_len=8)])
    engines.answers[URL + "/v1/models"] = lambda: next(answers, models("vllm", max_model_len=8))
    found = await inspector.inspect(spec())
    assert found == Inspection("vllm", {"served_model_name": "m", "max_model_len": "8"})
    assert len(clock.slept) == 1


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b'"\\ud800"', b"[]"])
async def test_an_answer_that_makes_no_sense_says_nothing(inspector, engines, body):
    engines.answers[URL + "/v1/models"] = 200, body
    assert await inspector.inspect(spec()) == Inspection("sglang", {})


async def test_a_provider_is_not_asked(inspector, engines):
    found = await inspector.inspect(spec(url="https://api.openai.com"))
    assert found == Inspection("external", {})
    assert engines.calls == []


@pytest.mark.parametrize(("answer", "trouble"), [(200, None), ("down", "connection refused")])
@pytest.mark.parametrize("url", ["grpc://h:1", "grpcs://h:1"])
async def test_a_grpc_engine_is_up_when_it_takes_connections(inspector, engines, url, answer, trouble):
    engines.answers[url] = answer
    assert await inspector.trouble(url) == trouble
    assert engines.calls == [(url, None)]


async def test_for_an_engine_that_connects_by_itself_nobody_waits(inspector, engines):
    assert await inspector.trouble("ipc:///run/a") is None
    assert engines.calls == []


@pytest.mark.parametrize(
    ("url", "runtime"), [("grpc://h:1", "sglang"), ("ipc:///run/a", "vllm"), ("grpc://api.openai.com", "sglang")]
)
async def test_only_http_engines_are_asked(inspector, engines, url, runtime):
    assert await inspector.inspect(spec(url=url)) == Inspection(runtime, {})
    assert await inspector.inspect(spec(url=url, runtime_type="trtllm")) == Inspection("trtllm", {})
    assert engines.calls == []


def test_the_spec_beats_the_host():
    assert known_runtime(spec()) is None
    assert known_runtime(spec(url="https://api.x.ai")) == "external"
    assert known_runtime(spec(url="https://api.x.ai", runtime_type="vllm")) == "vllm"
