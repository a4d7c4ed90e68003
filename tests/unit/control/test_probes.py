import pytest

from smg.control.probes import routes
from smg.errors import PlacementError, UpstreamError
from smg.fleet.worker import Status
from smg.services.readiness import Readiness


@pytest.fixture
def readiness(registry):
    return Readiness(registry)


@pytest.fixture
def call(client, registry, readiness, engines):
    return client(routes(registry, readiness, engines))


@pytest.mark.parametrize("path", ["/health", "/liveness"])
async def test_the_process_is_alive_whatever_its_workers_do(call, readiness, path):
    readiness.drain()
    answer = await call("GET", path)
    assert (answer.status, answer.body, answer.content_type) == (200, b"OK", b"text/plain; charset=utf-8")


async def test_readiness_is_served_from_memory(call, registry, readiness, engines, make_worker):
    assert (await call("GET", "/readiness")).status == 503
    registry.add(make_worker("a"))
    answer = await call("GET", "/readiness")
    assert (answer.status, answer.body) == (200, readiness.body)
    assert engines.calls == []


PATHS = ["/health_generate", "/get_server_info", "/get_model_info"]


@pytest.mark.parametrize("path", PATHS)
async def test_engine_routes_are_answered_by_the_first_ready_worker(call, registry, engines, make_worker, path):
    registry.add(make_worker("down", status=Status.NOT_READY))
    registry.add(make_worker("provider", runtime="external"))
    registry.add(make_worker("a", api_key="key"))
    registry.add(make_worker("b"))
    engines.answers["http://a" + path] = 418, b"body", b"text/x"
    answer = await call("GET", path)
    assert (answer.status, answer.body, answer.content_type) == (418, b"body", b"text/x")
    assert engines.calls == [("http://a" + path, "key")]


async def test_a_prefill_worker_answers_where_there_are_only_legs(call, registry, engines, make_worker):
    registry.add(make_worker("d", worker_type="decode"))
    registry.add(make_worker("p", worker_type="prefill"))
    await call("GET", "/get_server_info")
    assert engines.calls == [("http://p/get_server_info", None)]


@pytest.mark.parametrize("path", PATHS)
async def test_without_a_worker_there_is_nobody_to_ask(call, path):
    with pytest.raises(PlacementError) as refused:
        await call("GET", path)
    assert (refused.value.code, refused.value.status) == ("no_workers", 503)


async def test_a_worker_that_cannot_be_reached_is_an_upstream_error(call, registry, engines, make_worker):
    registry.add(make_worker("a"))
    engines.answers["http://a/get_model_info"] = "down"
    with pytest.raises(UpstreamError):
        await call("GET", "/get_model_info")
