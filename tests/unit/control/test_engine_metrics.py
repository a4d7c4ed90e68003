import asyncio

import pytest

from smg.control.engine_metrics import routes
from smg.fleet.worker import Status

TEXT = b"# HELP up Up.\n# TYPE up gauge\nup 1\n"


def metrics(text=TEXT, status=200):
    return status, text, b"text/plain"


@pytest.fixture
def ask(registry, engines, client):
    return client(routes(registry, engines))


async def test_the_engines_texts_are_merged(ask, registry, engines, make_worker):
    for name in ("a", "b"):
        registry.add(make_worker(name, api_key=f"key-{name}"))
        engines.answers[f"http://{name}/metrics"] = metrics()
    call = await ask("GET", "/engine_metrics")
    assert call.status == 200
    assert call.content_type.startswith(b"text/plain; version=0.0.4")
    assert call.body.splitlines() == [
        b"# HELP up Up.",
        b"# TYPE up gauge",
        b'up{worker_addr="http://a"} 1',
        b'up{worker_addr="http://b"} 1',
    ]
    assert engines.calls == [("http://a/metrics", "key-a"), ("http://b/metrics", "key-b")]


@pytest.mark.parametrize("answer", ["down", metrics(status=404), metrics(status=500)])
async def test_an_engine_that_fails_is_left_out(ask, registry, engines, make_worker, answer):
    for name in ("a", "b"):
        registry.add(make_worker(name))
    engines.answers = {"http://a/metrics": answer, "http://b/metrics": metrics()}
    call = await ask("GET", "/engine_metrics")
    assert call.status == 200
    assert b"http://b" in call.body
    assert b"http://a" not in call.body


async def test_when_every_engine_fails_there_is_nothing_to_show(ask, registry, make_worker):
    registry.add(make_worker("a"))
    call = await ask("GET", "/engine_metrics")
    assert (call.status, call.body) == (500, b"All backend requests failed")
    assert call.content_type.startswith(b"text/plain")


async def test_without_a_worker_there_is_nobody_to_ask(ask, registry, engines, make_worker):
    registry.add(make_worker("sick", status=Status.NOT_READY))
    registry.add(make_worker("provider", runtime="external"))
    call = await ask("GET", "/engine_metrics")
    assert (call.status, call.body) == (500, b"No available workers")
    assert engines.calls == []


async def test_ranks_of_one_engine_are_scraped_once(ask, registry, engines, make_worker):
    for rank in range(2):
        worker = make_worker(f"a@{rank}", dp_rank=rank)
        worker.base_url = "http://a"
        registry.add(worker)
    engines.answers["http://a/metrics"] = metrics()
    await ask("GET", "/engine_metrics")
    assert engines.calls == [("http://a/metrics", None)]


async def test_bytes_that_are_no_text_do_no_harm(ask, registry, engines, make_worker):
    registry.add(make_worker("a"))
    engines.answers["http://a/metrics"] = metrics(b"\xff\xfe\nup 1\n")
    assert (await ask("GET", "/engine_metrics")).body == b'up{worker_addr="http://a"} 1\n'


async def test_whoever_asks_meanwhile_gets_the_same_scrape(ask, registry, engines, make_worker):
    registry.add(make_worker("a"))
    engines.answers["http://a/metrics"] = metrics()
    calls = await asyncio.gather(*[ask("GET", "/engine_metrics") for _ in range(5)])
    assert {call.status for call in calls} == {200}
    assert len(engines.calls) == 1
    await ask("GET", "/engine_metrics")
    assert len(engines.calls) == 2


async def test_a_caller_who_leaves_takes_nothing_from_the_others(ask, registry, engines, make_worker):
    registry.add(make_worker("a"))
    engines.answers["http://a/metrics"] = metrics()
    leaving, staying = [asyncio.ensure_future(ask("GET", "/engine_metrics")) for _ in range(2)]
    await asyncio.sleep(0)
    leaving.cancel()
    assert (await staying).status == 200
    assert len(engines.calls) == 1


async def test_a_failure_that_nobody_waits_for_is_not_complained_of(ask, registry, engines, make_worker):
    registry.add(make_worker("a"))
    leaving = asyncio.ensure_future(ask("GET", "/engine_metrics"))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    assert (await ask("GET", "/engine_metrics")).status == 500
