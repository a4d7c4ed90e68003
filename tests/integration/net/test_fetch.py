"""Small calls by URL: a connection each, a deadline over all of it, and a bound on the answer."""

import asyncio

import pytest

from smg.errors import UpstreamError, UpstreamTimeout
from smg.net.fetch import Fetcher


@pytest.fixture
def fetcher():
    return Fetcher()


async def failure(awaitable, kind=UpstreamError):
    with pytest.raises(kind) as caught:
        await awaitable
    return caught.value.code


async def once(connection, number):
    await connection.request()
    await connection.answer(b"{}", "X-Thing: first", "X-thing: last", status="302 Found")


async def test_an_answer_is_fetched_as_it_is(start_worker, fetcher):
    worker = await start_worker(once)
    fetched = await fetcher.get(f"{worker.url}/a/b?c=d#e", api_key="secret", timeout_secs=5)
    assert (fetched.status, fetched.body, fetched.headers[b"x-thing"]) == (302, b"{}", b"last")
    ((head, body),) = worker.requests
    assert head.startswith(b"GET /a/b?c=d HTTP/1.1\r\nhost: 127.0.0.1:%d\r\n" % worker.port)
    assert b"\r\nauthorization: Bearer secret\r\n" in head
    assert body == b""


async def test_a_body_is_posted_as_json(start_worker, fetcher):
    worker = await start_worker(once)
    await fetcher.post(worker.url, b'{"a":1}', timeout_secs=5)
    ((head, body),) = worker.requests
    assert head.startswith(b"POST / HTTP/1.1\r\n")
    assert b"\r\ncontent-type: application/json\r\n" in head
    assert b"authorization" not in head
    assert body == b'{"a":1}'


async def test_every_call_has_a_connection_of_its_own_and_leaves_none(start_worker, fetcher, until):
    worker = await start_worker()
    await asyncio.gather(*(fetcher.get(worker.url, timeout_secs=5) for _ in range(10)))
    assert worker.connections == 10
    assert all(b"\r\nconnection: close\r\n" in head for head, _ in worker.requests)
    await until(lambda: worker.open == 0)


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel"])
async def test_the_whole_call_has_one_deadline(start_worker, fetcher, until, begun):
    async def script(connection, number):
        await connection.request()
        await connection.write(begun)
        await connection.ended()

    worker = await start_worker(script)
    assert await failure(fetcher.get(worker.url, timeout_secs=0.05), UpstreamTimeout) == "call_upstream_timeout"
    await until(lambda: worker.ended == 1)


async def test_the_answer_is_bounded(start_worker, fetcher, until):
    async def script(connection, number):
        await connection.request()
        await connection.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await connection.write(b"x" * 100_000)
        await connection.ended()

    worker = await start_worker(script)
    assert await failure(fetcher.get(worker.url, timeout_secs=5, max_bytes=1000)) == "upstream_response_too_large"
    await until(lambda: worker.ended == 1)


async def test_what_goes_wrong_on_the_way_is_an_upstream_error(start_worker, fetcher):
    async def script(connection, number):
        await connection.request()
        await connection.write(b"garbage\r\n\r\n")

    worker = await start_worker(script)
    assert await failure(fetcher.get(worker.url, timeout_secs=5)) == "call_upstream_request_error"
    await worker.stop()
    assert await failure(fetcher.get(worker.url, timeout_secs=5)) == "call_upstream_connection_failed"


@pytest.mark.parametrize(
    "url",
    ["", "nowhere", "ftp://a", "http://", "http://a:b/", "http://[::1/", "http://" + "a" * 70 + ".b", "http://a..b"],
)
async def test_a_url_that_leads_nowhere_is_an_upstream_error(fetcher, url):
    assert await failure(fetcher.get(url, timeout_secs=5)) in {
        "call_upstream_request_error",
        "call_upstream_connection_failed",
    }


async def test_cancelling_leaves_nothing_behind(start_worker, fetcher, until):
    async def script(connection, number):
        await connection.request()
        await connection.ended()

    worker = await start_worker(script)
    fetching = asyncio.ensure_future(fetcher.get(worker.url, timeout_secs=5))
    await until(lambda: worker.requests)
    fetching.cancel()
    await asyncio.gather(fetching, return_exceptions=True)
    assert fetching.cancelled()
    await until(lambda: worker.ended == 1)


async def test_reaching_an_address_says_nothing_to_it(start_worker, fetcher, until):
    heard = []

    async def script(connection, number):
        heard.append(await connection.reader.read())

    worker = await start_worker(script)
    await fetcher.reach(worker.url.replace("http:", "grpc:"), timeout_secs=5)
    await until(lambda: worker.connections == 1 and worker.open == 0)
    assert not any(heard)
    await worker.stop()
    for url in (worker.url, "grpc://a..b", "grpc://", "grpc://[::1", "grpc://a:b"):
        assert await failure(fetcher.reach(url, timeout_secs=5)) in {
            "call_upstream_request_error",
            "call_upstream_connection_failed",
        }
