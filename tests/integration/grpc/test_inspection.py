"""What the gateway finds out about engines that speak gRPC."""

import pytest

from smg.fleet.spec import WorkerSpec
from smg.net.fetch import Fetcher
from smg.services.inspection import Inspector

ENGINES = ["sglang", "vllm", "trtllm", "tokenspeed", "mlx"]


async def no_pause(_secs):
    pass


def inspector():
    return Inspector(Fetcher(), timeout_secs=5, sleep=no_pause)


@pytest.mark.parametrize("runtime", ENGINES)
async def test_an_engine_is_known_by_the_health_check_it_answers(start_engine, runtime):
    engine = await start_engine(runtime)
    assert (await inspector().inspect(WorkerSpec(url=engine.url))).runtime == runtime
    assert engine.calls.count("HealthCheck") == 1


async def test_labels_are_what_the_engine_tells(start_engine):
    engine = await start_engine(
        "sglang",
        GetModelInfo={"served_model_name": "m", "weight_version": "w-1", "max_context_length": 4096},
        GetServerInfo={"server_args": {"tp_size": 2, "api_key": "secret"}, "sglang_version": "0.5"},
    )
    found = await inspector().inspect(WorkerSpec(url=engine.url))
    assert found.labels == {
        "served_model_name": "m",
        "weight_version": "w-1",
        "max_context_length": "4096",
        "is_generation": "false",
        "supports_vision": "false",
        "tp_size": "2",
        "version": "0.5",
    }


async def test_a_runtime_that_is_said_is_not_asked_for(start_engine):
    engine = await start_engine("vllm")
    found = await inspector().inspect(WorkerSpec(url=engine.url, runtime_type="vllm"))
    assert found.runtime == "vllm"
    assert "HealthCheck" not in engine.calls


@pytest.mark.parametrize(("key", "credential"), [(None, None), ("its-key", "Bearer its-key")])
async def test_an_engine_is_asked_with_its_own_key(start_engine, key, credential):
    engine = await start_engine("sglang")
    await inspector().inspect(WorkerSpec(url=engine.url, api_key=key))
    assert engine.credentials == {credential}


async def test_one_of_two_answers_is_enough(start_engine):
    engine = await start_engine("vllm", GetModelInfo={"served_model_name": "m"}, GetServerInfo=None)
    found = await inspector().inspect(WorkerSpec(url=engine.url))
    assert (found.runtime, found.labels["served_model_name"]) == ("vllm", "m")


async def test_an_engine_that_tells_nothing_is_asked_again_and_then_taken_as_it_is(start_engine):
    engine = await start_engine("vllm", GetModelInfo=None, GetServerInfo=None)
    found = await inspector().inspect(WorkerSpec(url=engine.url))
    assert (found.runtime, found.labels) == ("vllm", {})
    assert engine.calls.count("GetModelInfo") == 3
    assert engine.calls.count("HealthCheck") == 1


async def test_an_address_that_speaks_no_grpc_is_taken_for_the_first_engine(unused_tcp_port):
    found = await inspector().inspect(WorkerSpec(url=f"grpc://127.0.0.1:{unused_tcp_port}"))
    assert (found.runtime, found.labels) == ("sglang", {})
