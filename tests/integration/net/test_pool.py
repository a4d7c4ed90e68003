"""The pool: connections reused while fresh, replaced once when stale, and counted back to zero whatever happens."""

import asyncio
import socket

import pytest

from smg.errors import UpstreamError, UpstreamTimeout
from smg.net.body import RequestBody
from smg.net.http1.client import LostBeforeAnswer

LIMIT = 1 << 20


@pytest.fixture
def post(wire_format):
    return wire_format[0]


@pytest.fixture
def answer_head(wire_format):
    return wire_format[1]


async def ask(pool, request, deadline=0.0, body=None):
    async with asyncio.timeout(10):
        reply = await pool.call(request, deadline, body)
        try:
            return await reply.read(LIMIT)
        finally:
            reply.close()


async def failure(awaitable, kind=UpstreamError):
    with pytest.raises(kind) as caught:
        await awaitable
    return caught.value.code


def in_secs(secs):
    return asyncio.get_running_loop().time() + secs


# --- reuse


async def test_one_connection_serves_calls_in_turn(start_worker, new_pool, post):
    worker = await start_worker()
    pool = new_pool(worker)
    for n in range(20):
        assert await ask(pool, post(b"%d" % n)) == b"1:%d" % n
    assert worker.connections == len(pool) == 1
    assert pool.resends == 0


async def test_calls_at_once_have_a_connection_each_and_the_last_used_goes_out_first(
    start_worker, new_pool, post, until
):
    order = []
    gate = asyncio.Event()

    async def script(connection, number):
        while True:
            await connection.request()
            order.append(number)
            await gate.wait()
            await connection.answer(b"%d" % number)

    worker = await start_worker(script)
    pool = new_pool(worker, idle_timeout_secs=0)
    calls = [asyncio.ensure_future(ask(pool, post())) for _ in range(5)]
    await until(lambda: len(order) == 5)
    gate.set()
    assert sorted(await asyncio.gather(*calls)) == [b"1", b"2", b"3", b"4", b"5"]
    first = await ask(pool, post())
    for _ in range(5):
        assert await ask(pool, post()) == first
    assert worker.connections == len(pool) == 5


async def test_a_crowd_gets_its_own_answers(start_worker, new_pool, post):
    worker = await start_worker()
    pool = new_pool(worker)
    bodies = await asyncio.gather(*(ask(pool, post(b"%d" % n)) for n in range(80)))
    assert [body.partition(b":")[2] for body in bodies] == [b"%d" % n for n in range(80)]


async def test_idle_connections_are_closed_in_time(start_worker, new_pool, post, until):
    worker = await start_worker()
    pool = new_pool(worker, idle_timeout_secs=0.05)
    await asyncio.gather(*(ask(pool, post()) for _ in range(5)))
    await until(lambda: len(pool) == 0)
    assert pool._idle == []
    await until(lambda: worker.open == 0)
    assert await ask(pool, post(b"x")) == b"6:x"


async def test_a_connection_that_idled_too_long_is_not_taken_even_before_the_sweep(start_worker, new_pool, post):
    worker = await start_worker()
    pool = new_pool(worker, idle_timeout_secs=5)
    await ask(pool, post())
    pool._idle[0].idle_since -= 6
    assert await ask(pool, post(b"x")) == b"2:x"
    assert pool.resends == 0


async def test_no_more_idle_connections_are_kept_than_allowed(start_worker, new_pool, post, until):
    worker = await start_worker()
    pool = new_pool(worker, max_idle=2)
    await asyncio.gather(*(ask(pool, post()) for _ in range(6)))
    assert len(pool._idle) == len(pool) == 2
    await until(lambda: worker.open == 2)


async def test_a_working_connection_is_not_idle(start_worker, new_pool, post):
    async def script(connection, number):
        await connection.request()
        await asyncio.sleep(0.2)
        await connection.answer()

    pool = new_pool(await start_worker(script), idle_timeout_secs=0.05)
    assert await ask(pool, post()) == b"ok"


# --- stale connections


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_connection_the_worker_closed_while_idle_costs_nothing(start_worker, new_pool, post, until, how):
    async def script(connection, number):
        await connection.request()
        await connection.answer(b"%d" % number)
        await asyncio.sleep(0.01)
        if how == "reset":
            connection.reset()

    worker = await start_worker(script)
    pool = new_pool(worker)
    for n in range(3):
        assert await ask(pool, post()) == b"%d" % (n + 1)
        await until(lambda: len(pool) == 0)
    assert pool._idle == []
    assert pool.resends == 0


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("size", [0, 200_000])
async def test_a_request_that_loses_the_race_is_sent_once_more_on_a_fresh_connection(
    start_worker, new_pool, post, how, size
):
    async def script(connection, number):
        await connection.request()
        await connection.answer(b"%d" % number)
        if number == 1:
            await connection.request()
            if how == "reset":
                connection.reset()
        else:
            await connection.request()

    worker = await start_worker(script)
    pool = new_pool(worker)
    await ask(pool, post())
    request = post(b"x" * size)
    assert await ask(pool, request) == b"2"
    assert pool.resends == 1
    _, lost, resent = worker.requests
    assert lost == resent


async def test_a_resend_takes_no_second_stale_connection_and_there_is_only_one(start_worker, new_pool, post, until):
    answered = 0

    async def script(connection, number):
        nonlocal answered
        await connection.request()
        if answered < 3:
            answered += 1
            while answered < 3:  # noqa: ASYNC110  the other connections count
                await asyncio.sleep(0.001)
            await connection.answer()
            await connection.request()

    worker = await start_worker(script)
    pool = new_pool(worker, idle_timeout_secs=0)
    await asyncio.gather(*(ask(pool, post()) for _ in range(3)))
    assert await failure(ask(pool, post(b"again")), LostBeforeAnswer) == "call_upstream_request_error"
    assert [body for _, body in worker.requests].count(b"again") == 2
    assert worker.connections == 4
    assert pool.resends == 1
    assert len(pool) == 2


async def test_a_fresh_connection_that_is_lost_is_not_replaced(start_worker, new_pool, post):
    async def script(connection, number):
        await connection.request()

    worker = await start_worker(script)
    pool = new_pool(worker)
    assert await failure(ask(pool, post()), LostBeforeAnswer) == "call_upstream_request_error"
    assert len(worker.requests) == 1
    assert pool.resends == 0


@pytest.mark.parametrize(
    "begun",
    [
        b"H",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel",
    ],
)
async def test_nothing_is_sent_again_once_the_answer_began(start_worker, new_pool, post, begun):
    async def script(connection, number):
        await connection.request()
        await connection.answer()
        await connection.request()
        await connection.write(begun)

    worker = await start_worker(script)
    pool = new_pool(worker)
    await ask(pool, post())
    assert await failure(ask(pool, post())) in {"call_upstream_request_error", "read_response_body_failed"}
    assert len(worker.requests) == 2
    assert pool.resends == 0


class Source:
    def hold(self): ...

    def unhold(self): ...

    def invite(self): ...


async def test_a_piped_body_is_never_sent_again(start_worker, new_pool, post):
    async def script(connection, number):
        await connection.request()
        await connection.answer()
        await connection.request()

    worker = await start_worker(script)
    pool = new_pool(worker)
    await ask(pool, post())
    body = RequestBody(Source(), 5, 100, 0.0)
    body.put_whole(b"hello")
    head = post(b"hello")[:-5]
    assert await failure(ask(pool, head, body=body), LostBeforeAnswer) == "call_upstream_request_error"
    assert [received for _, received in worker.requests] == [b"", b"hello"]
    assert pool.resends == 0


@pytest.mark.parametrize("pause_secs", [0, 0.0005, 0.002])
async def test_calls_that_race_the_workers_idle_close_all_succeed(start_worker, new_pool, post, pause_secs):
    async def script(connection, number):
        await connection.request()
        await connection.answer()
        await asyncio.sleep(0.001)

    worker = await start_worker(script)
    pool = new_pool(worker)
    for _ in range(60):
        assert await ask(pool, post()) == b"ok"
        await asyncio.sleep(pause_secs)


# --- connecting


async def test_a_refused_connection_says_so(new_pool, post):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        pool = new_pool(f"http://127.0.0.1:{sock.getsockname()[1]}")
        assert await failure(ask(pool, post())) == "call_upstream_connection_failed"
    assert len(pool) == 0


async def test_an_unknown_host_says_so(new_pool, post):
    assert await failure(ask(new_pool("http://no-such-host.invalid"), post())) == "call_upstream_connection_failed"


@pytest.fixture
def full_listener():
    """An address that neither accepts nor refuses."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        waiting = []
        for _ in range(4):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(address)
            waiting.append(sock)
        yield f"http://127.0.0.1:{address[1]}"
        for sock in waiting:
            sock.close()


@pytest.mark.parametrize("by", ["its own timeout", "the deadline", "a deadline that has passed"])
async def test_connecting_has_its_time(full_listener, new_pool, post, by):
    pool = new_pool(full_listener, connect_timeout_secs=0.05 if by == "its own timeout" else 60)
    deadline = {"its own timeout": 0.0, "the deadline": in_secs(0.05)}.get(by, in_secs(-1))
    assert await failure(ask(pool, post(), deadline), UpstreamTimeout) == "call_upstream_timeout"
    assert len(pool) == 0


async def test_cancelling_a_connect_leaves_nothing_behind(full_listener, new_pool, post):
    pool = new_pool(full_listener)
    calling = asyncio.ensure_future(ask(pool, post()))
    await asyncio.sleep(0.02)
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    assert calling.cancelled()
    assert len(pool) == 0


async def test_a_connection_that_comes_and_goes_is_not_counted(start_worker, new_pool, post):
    async def script(connection, number):
        connection.reset()

    pool = new_pool(await start_worker(script))
    for _ in range(30):
        assert await failure(ask(pool, post())) == "call_upstream_request_error"
    assert len(pool) == 0


# --- retired pools


async def test_a_closed_pool_ends_idle_connections_and_lets_exchanges_finish(
    start_worker, new_pool, post, until, answer_head
):
    go_on = asyncio.Event()

    async def script(connection, number):
        while True:
            await connection.request()
            if number == 1:
                await connection.write(answer_head("content-length: 5") + b"he")
                await go_on.wait()
                await connection.write(b"llo")
            else:
                await connection.answer()

    worker = await start_worker(script)
    pool = new_pool(worker)
    running = asyncio.ensure_future(ask(pool, post()))
    await until(lambda: worker.requests)
    await ask(pool, post())
    assert len(pool) == 2
    pool.close()
    await until(lambda: len(pool) == 1)
    assert not running.done()
    assert await ask(pool, post()) == b"ok"  # whoever had the pool in hand is still served
    go_on.set()
    assert await running == b"hello"
    assert len(pool) == 0
    await until(lambda: worker.open == 0)


async def test_any_ending_gives_the_connection_back_or_ends_it(start_worker, new_pool, post, answer_head):
    endings = [
        answer_head("content-length: 2") + b"ok",
        answer_head("content-length: 5") + b"hel",
        answer_head("transfer-encoding: chunked") + b"2\r\nok\r\n0\r\n\r\n",
        answer_head("transfer-encoding: chunked") + b"zz\r\n",
        answer_head() + b"until the end",
        answer_head("content-length: %d" % (2 << 20)) + b"x" * 300_000,
        b"garbage\r\n\r\n",
        b"",
    ]

    async def script(connection, number):
        while True:
            _, body = await connection.request()
            await connection.write(endings[int(body) % len(endings)])
            if int(body) % len(endings) not in {0, 2}:
                return

    pool = new_pool(await start_worker(script))
    results = await asyncio.gather(*(ask(pool, post(b"%d" % n)) for n in range(80)), return_exceptions=True)
    assert sum(isinstance(result, bytes) for result in results) == 30
    assert all(isinstance(result, bytes | UpstreamError) for result in results)
    await asyncio.sleep(0.01)
    assert len(pool) == len(pool._idle)
