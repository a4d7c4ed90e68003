import asyncio

import pytest

from smg.control.fleet_calls import MAX_CALLS, routes
from smg.errors import UpstreamError
from smg.fleet.worker import Status
from smg.net.fetch import Fetched


class Engines:
    """Stands in for the network: an answer by URL (status or status and body, or "down"), 200 without one."""

    def __init__(self):
        self.answers = {}
        self.calls = []
        self.under_way = 0
        self.most = 0

    async def post(self, url, body, *, api_key=None, timeout_secs, max_bytes=0):
        self.calls.append((url, body, api_key, timeout_secs))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        answer = self.answers.get(url, 200)
        if answer == "down":
            raise UpstreamError("call_upstream_connection_failed", "connection refused")
        status, content = answer if isinstance(answer, tuple) else (answer, b"")
        return Fetched(status, {}, content)

    @property
    def urls(self):
        return [url for url, *_ in self.calls]


@pytest.fixture
def engines():
    return Engines()


@pytest.fixture
def ask(registry, engines, client):
    return client(routes(registry, engines))


@pytest.fixture
def pair(registry, make_worker):
    registry.add(make_worker("a", runtime="sglang", api_key="secret"))
    registry.add(make_worker("b", runtime="vllm"))


@pytest.mark.usefixtures("pair")
async def test_every_engine_s_cache_is_flushed_by_its_own_route_and_with_its_own_key(ask, engines):
    call = await ask("POST", "/flush_cache")
    assert call.status == 200
    assert engines.calls == [
        ("http://a/flush_cache", b"", "secret", 45.0),
        ("http://b/reset_prefix_cache", b"", None, 45.0),
    ]
    assert call.json.pop("message")
    assert call.json == {
        "status": "success",
        "message": call.json["message"],
        "workers_flushed": 2,
        "total_http_workers": 2,
        "total_grpc_workers": 0,
        "total_zmq_workers_skipped": 0,
        "total_workers": 2,
    }


@pytest.mark.parametrize(
    ("answer", "words"),
    [(500, "500"), ((400, b"requests\n are running"), "requests are running"), ("down", "refused"), (302, "302")],
)
@pytest.mark.usefixtures("pair")
async def test_failures_are_told_apart_from_successes(ask, engines, answer, words):
    engines.answers["http://a/flush_cache"] = answer
    call = await ask("POST", "/flush_cache")
    assert call.status == 206
    assert (call.json["status"], call.json["workers_flushed"], call.json["total_workers"]) == ("partial_success", 1, 2)
    assert call.json["successful"] == ["http://b"]
    (failed,) = call.json["failed"]
    assert failed["worker"] == "http://a"
    assert words in failed["error"]


@pytest.mark.usefixtures("pair")
async def test_a_flush_that_failed_everywhere_is_a_partial_success_too(ask, engines):
    engines.answers = dict.fromkeys(["http://a/flush_cache", "http://b/reset_prefix_cache"], 500)
    call = await ask("POST", "/flush_cache")
    assert (call.status, call.json["workers_flushed"], call.json["successful"]) == (206, 0, [])
    assert len(call.json["failed"]) == 2


async def test_an_empty_fleet_is_flushed_at_once(ask):
    call = await ask("POST", "/flush_cache")
    assert (call.status, call.json["status"], call.json["total_workers"]) == (200, "success", 0)


async def test_engines_that_are_not_ready_are_called_and_others_have_no_such_route(ask, engines, registry, make_worker):
    registry.add(make_worker("sick", status=Status.NOT_READY))
    registry.add(make_worker("provider", runtime="external"))
    registry.add(make_worker("zmq", connection_mode="zmq"))
    call = await ask("POST", "/flush_cache")
    assert engines.urls == ["http://sick/flush_cache"]
    assert call.json["total_zmq_workers_skipped"] == 1


async def test_ranks_of_one_engine_are_called_once(ask, engines, registry, make_worker):
    for rank in range(2):
        worker = make_worker(f"a@{rank}", dp_rank=rank)
        worker.base_url = "http://a"
        registry.add(worker)
    call = await ask("POST", "/flush_cache")
    assert engines.urls == ["http://a/flush_cache"]
    assert call.json["total_workers"] == 1


async def test_a_large_fleet_is_called_some_at_a_time(ask, engines, registry, make_worker):
    for number in range(3 * MAX_CALLS):
        registry.add(make_worker(str(number)))
    assert (await ask("POST", "/flush_cache")).json["workers_flushed"] == 3 * MAX_CALLS
    assert engines.most == MAX_CALLS


@pytest.mark.parametrize("verb", ["start", "stop"])
@pytest.mark.usefixtures("pair")
async def test_profiling_starts_and_stops_everywhere(ask, engines, verb):
    call = await ask("POST", f"/{verb}_profile", b"")
    assert engines.urls == [f"http://a/{verb}_profile", f"http://b/{verb}_profile"]
    assert (call.status, call.json["status"], call.json["workers_profiled"], call.json["total_workers"]) == (
        200,
        "success",
        2,
        2,
    )


@pytest.mark.usefixtures("pair")
async def test_the_settings_of_a_profile_go_along_as_they_came(ask, engines):
    await ask("POST", "/start_profile", b'{"num_steps": 5.0}')
    assert [body for _, body, *_ in engines.calls] == [b'{"num_steps": 5.0}'] * 2


@pytest.mark.usefixtures("pair")
async def test_one_worker_can_be_profiled(ask, engines):
    engines.answers["http://b/start_profile"] = 500
    call = await ask("POST", "/start_profile", {"url": "http://b", "num_steps": 5})
    assert [(url, body) for url, body, *_ in engines.calls] == [("http://b/start_profile", b'{"num_steps":5}')]
    assert (call.status, call.json["total_workers"], call.json["workers_profiled"]) == (206, 1, 0)
    await ask("POST", "/stop_profile", {"url": "http://a"})
    assert engines.calls[-1][:2] == ("http://a/stop_profile", b"")


@pytest.mark.parametrize("body", [b"", b'{"url": "http://nobody"}', b'{"url": null}', b'{"url": {"a": []}}'])
async def test_there_must_be_somebody_to_profile(ask, engines, body):
    call = await ask("POST", "/start_profile", body)
    assert (call.status, call.json["status"], call.json["total_workers"]) == (404, "error", 0)
    assert engines.calls == []


@pytest.mark.parametrize("body", [b" \n", b"{", b"[]", b"5", b"\xff", b"[" * 100_000])
@pytest.mark.usefixtures("pair")
async def test_settings_are_an_object(ask, engines, body):
    call = await ask("POST", "/start_profile", body)
    assert (call.status, call.json["status"]) == (400, "error")
    assert engines.calls == []


def test_all_of_it_is_the_admin_s(registry, engines):
    assert {route.group for route in routes(registry, engines)} == {"admin"}
