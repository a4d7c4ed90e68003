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


PAIR = ("prefill", "decode")


@pytest.fixture
def call_pair(client, registry, readiness, engines):
    return client(routes(registry, readiness, engines, PAIR))


@pytest.fixture
def legs(registry, make_worker):
    registry.add(make_worker("whole"))
    for kind in reversed(PAIR):
        registry.add(make_worker(kind, worker_type=kind))


@pytest.mark.parametrize("path", PATHS[1:])
async def test_of_a_pair_prefill_tells_about_itself(call_pair, legs, engines, path):
    engines.answers["http://prefill" + path] = 200, b"prefill", b"text/x"
    assert (await call_pair("GET", path)).body == b"prefill"
    assert engines.calls == [("http://prefill" + path, None)]


@pytest.mark.parametrize(
    ("prefill", "decode", "status"), [(200, 200, 200), (503, 200, 503), (200, 500, 500), (503, 500, 503)]
)
async def test_both_halves_of_a_pair_must_generate(call_pair, legs, engines, prefill, decode, status):
    engines.answers["http://prefill/health_generate"] = prefill, b"p", b"text/x"
    engines.answers["http://decode/health_generate"] = decode, b"d", b"text/x"
    answer = await call_pair("GET", "/health_generate")
    assert answer.status == status
    assert answer.body == (b"p" if prefill != 200 else b"d")
    assert len(engines.calls) == 2


@pytest.mark.parametrize("down", PAIR)
async def test_a_half_that_cannot_be_reached_is_an_upstream_error(call_pair, legs, engines, down):
    for kind in PAIR:
        engines.answers[f"http://{kind}/health_generate"] = "down" if kind == down else (200, b"", b"text/x")
    with pytest.raises(UpstreamError):
        await call_pair("GET", "/health_generate")


async def test_half_a_pair_is_nobody_to_ask(call_pair, registry, engines, make_worker):
    registry.add(make_worker("prefill", worker_type="prefill"))
    with pytest.raises(PlacementError) as refused:
        await call_pair("GET", "/health_generate")
    assert (refused.value.code, refused.value.message) == ("no_workers", "no decode worker is available")
    assert engines.calls == []
