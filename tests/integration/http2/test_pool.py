"""The pool over real sockets: sharing connections, losing them, and pacing both ways."""

import asyncio
import json

import pytest
from h2.errors import ErrorCodes

from smg.errors import UpstreamError, UpstreamTimeout
from smg.net.body import RequestBody
from smg.net.http2.failures import NotHttp2

MANY = 100
BIG = bytes(range(256)) * 8192  # 2 MiB


async def ask(pool, fields, content=b"", *, deadline=0.0):
    """One exchange, whole."""
    reply = await pool.call(fields, deadline, content=content)
    try:
        return reply.status, await reply.read(1 << 30)
    finally:
        reply.close()


async def test_a_hundred_calls_share_a_connection_and_each_gets_its_own_answer(start_worker, new_pool, post, until):
    together = asyncio.Event()

    async def behave(call):
        body = await call.read()
        await together.wait()
        await call.answer(200, b"for " + body)

    worker = await start_worker(behave)
    pool = new_pool(worker)
    calls = [asyncio.create_task(ask(pool, post(), b"%d" % number)) for number in range(MANY)]
    await until(lambda: len(worker.calls) == MANY, "all calls at the worker")
    together.set()
    assert await asyncio.gather(*calls) == [(200, b"for %d" % number) for number in range(MANY)]
    assert len(worker.lines) == 1


async def test_what_one_connection_cannot_carry_goes_over_another(start_worker, new_pool, post, until):
    worker = await start_worker(max_concurrent_streams=10)
    pool = new_pool(worker)
    assert await asyncio.gather(*[ask(pool, post(), b"%d" % n) for n in range(35)]) == [
        (200, b"%d" % n) for n in range(35)
    ]
    assert 1 < len(worker.lines) <= 4
    assert not worker.broken_rules


async def test_beyond_the_bound_of_connections_calls_wait_for_a_stream_to_end(start_worker, new_pool, post, until):
    worker = await start_worker()
    pool = new_pool(worker, limits={"streams": 2, "connections": 2})
    assert len(await asyncio.gather(*[ask(pool, post(), b"x") for _ in range(50)])) == 50
    assert len(worker.lines) == 2


async def test_a_call_that_waits_for_a_stream_meets_its_deadline(start_worker, new_pool, post, until):
    async def hangs(call):
        await call.reset_by_peer.wait()

    worker = await start_worker(hangs)
    pool = new_pool(worker, limits={"streams": 1, "connections": 1})
    first = asyncio.create_task(ask(pool, post(), b"x"))
    await until(lambda: worker.calls)
    with pytest.raises(UpstreamTimeout):
        await ask(pool, post(), b"x", deadline=asyncio.get_running_loop().time() + 0.05)
    first.cancel()
    await asyncio.wait({first})


async def test_a_cancelled_call_resets_its_own_stream_and_no_other(start_worker, new_pool, post, until, within):
    go = asyncio.Event()

    async def behave(call):
        await call.read()
        await go.wait()
        if not call.reset_by_peer.is_set():
            await call.answer(200, call.body)

    worker = await start_worker(behave)
    pool = new_pool(worker)
    leaving, staying = [asyncio.create_task(ask(pool, post(), name)) for name in (b"leaving", b"staying")]
    await until(lambda: len(worker.calls) == 2)
    leaving.cancel()
    await within(worker.calls[0].reset_by_peer.wait())
    assert worker.calls[0].reset_code == ErrorCodes.CANCEL
    go.set()
    assert await staying == (200, b"staying")
    assert len(worker.lines) == 1


async def test_an_answer_given_up_resets_its_stream(start_worker, new_pool, post, within):
    async def behave(call):
        await call.begin_stream()
        await call.event("first")
        await call.reset_by_peer.wait()

    worker = await start_worker(behave)
    pool = new_pool(worker)
    reply = await pool.call(post(), 0.0)
    reply.close()
    await within(worker.calls[0].reset_by_peer.wait())
    assert worker.calls[0].reset_code == ErrorCodes.CANCEL


async def test_big_bodies_pass_both_ways_through_tiny_windows(start_worker, new_pool, post):
    worker = await start_worker(initial_window_size=500)
    pool = new_pool(worker, limits={"stream_window_bytes": 700, "connection_window_bytes": 70_000})
    body = BIG[:100_000]
    answers = await asyncio.gather(*[ask(pool, post(), body) for _ in range(5)])
    assert answers == [(200, body)] * 5


async def test_big_bodies_pass_both_ways_through_the_usual_windows(start_worker, new_pool, post):
    worker = await start_worker()
    pool = new_pool(worker)
    assert await asyncio.gather(*[ask(pool, post(), BIG) for _ in range(4)]) == [(200, BIG)] * 4


async def test_a_slow_reader_holds_back_its_own_stream_alone(start_worker, new_pool, post, until):
    sent = {}

    async def behave(call):
        name = await call.read()
        call.begin()
        sent[name] = 0
        for _ in range(64):
            await call.data(BIG[:65536])
            sent[name] += 65536
        call.end()

    worker = await start_worker(behave)
    pool = new_pool(worker)
    slow = await pool.call(post(), 0.0, content=b"slow")
    assert len((await ask(pool, post(), b"quick"))[1]) == 64 * 65536
    await until(lambda: sent[b"slow"] >= 196608, "the slow one's window is used up")
    assert sent[b"slow"] <= 512 * 1024
    assert len(await slow.read(1 << 30)) == 64 * 65536
    assert len(worker.lines) == 1


class Client:
    """The connection a piped body comes from."""

    def __init__(self):
        self.held = False

    def hold(self):
        self.held = True

    def unhold(self):
        self.held = False

    def invite(self):
        pass


async def test_a_piped_body_is_held_back_by_the_workers_window(start_worker, new_pool, post, until):
    worker = await start_worker(reads=False, initial_window_size=1000)
    pool = new_pool(worker)
    client = Client()
    body = RequestBody(client, len(BIG), 1 << 30, 0.0)
    call = asyncio.create_task(pool.call(post(), 0.0, body))
    await until(lambda: worker.calls)
    for start in range(0, len(BIG), 65536):
        body.feed(BIG[start : start + 65536], 0.0)
        if client.held:
            break
    assert client.held
    await until(lambda: len(worker.calls[0].body) == 1000)
    worker.reads = True
    line = worker.lines[0]
    line.h2.acknowledge_received_data(1000, worker.calls[0].id)
    line.flush()
    await until(lambda: not client.held)
    start += 65536
    body.feed(BIG[start:], 0.0)
    body.finish()
    reply = await call
    assert await reply.read(1 << 30) == BIG


async def test_a_piped_body_that_fails_resets_the_stream(start_worker, new_pool, post, until, within):
    worker = await start_worker()
    pool = new_pool(worker)
    body = RequestBody(Client(), 100, 1 << 30, 0.0)
    call = asyncio.create_task(pool.call(post(), 0.0, body))
    await until(lambda: worker.calls)
    body.feed(b"half", 0.0)
    error = UpstreamError("call_upstream_request_error", "it left")
    body.fail(error)
    with pytest.raises(UpstreamError) as caught:
        await call
    assert caught.value is error
    await within(worker.calls[0].reset_by_peer.wait())


async def test_an_answer_before_the_end_of_the_request_stops_the_upload(start_worker, new_pool, post, within):
    async def behave(call):
        await call.answer(413, b"too much")

    worker = await start_worker(behave, reads=False)
    pool = new_pool(worker)
    assert await ask(pool, post(), BIG) == (413, b"too much")
    await within(worker.calls[0].reset_by_peer.wait())
    assert await ask(pool, post()) == (413, b"too much")
    assert len(worker.lines) == 1


async def test_streams_that_a_leaving_worker_has_begun_finish_and_later_ones_are_sent_anew(
    start_worker, new_pool, post, until
):
    go = asyncio.Event()

    async def behave(call):
        body = await call.read()
        await go.wait()
        await call.answer(200, body)

    worker = await start_worker(behave)
    pool = new_pool(worker)
    calls = [asyncio.create_task(ask(pool, post(), b"%d" % number)) for number in range(4)]
    await until(lambda: len(worker.calls) == 4)
    first = worker.lines[0]
    first.goaway(worker.calls[1].id)
    await until(lambda: len(worker.calls) == 6, "two calls come again")
    go.set()
    assert await asyncio.gather(*calls) == [(200, b"%d" % number) for number in range(4)]
    assert len(worker.lines) == 2
    assert pool.resends == 2
    await until(lambda: first.over, "the end of the connection that was left")


async def test_a_refused_call_is_sent_once_more_on_a_fresh_connection(start_worker, new_pool, post):
    async def behave(call):
        if len(worker.calls) == 1:
            call.reset(ErrorCodes.REFUSED_STREAM)
        else:
            await call.answer(200, await call.read())

    worker = await start_worker(behave)
    pool = new_pool(worker)
    assert await ask(pool, post(), b"again") == (200, b"again")
    assert len(worker.lines) == 2
    assert pool.resends == 1


async def test_a_call_that_is_refused_twice_fails(start_worker, new_pool, post):
    async def behave(call):
        call.reset(ErrorCodes.REFUSED_STREAM)

    worker = await start_worker(behave)
    pool = new_pool(worker)
    with pytest.raises(UpstreamError):
        await ask(pool, post(), b"again")
    assert len(worker.calls) == 2


async def test_a_reset_before_the_answer_is_an_error_of_the_call(start_worker, new_pool, post):
    async def behave(call):
        call.reset()

    worker = await start_worker(behave)
    pool = new_pool(worker)
    with pytest.raises(UpstreamError) as caught:
        await ask(pool, post(), b"x")
    assert caught.value.code == "call_upstream_request_error"
    assert len(worker.calls) == 1


@pytest.mark.parametrize("end", ["reset", "abort"])
async def test_an_answer_that_breaks_off_is_an_error_and_never_an_end(start_worker, new_pool, post, end):
    async def behave(call):
        call.begin()
        await call.data(b"half")
        await call.read()
        call.reset() if end == "reset" else call.line.transport.close()

    worker = await start_worker(behave)
    pool = new_pool(worker)
    with pytest.raises(UpstreamError) as caught:
        await ask(pool, post())
    assert caught.value.code == "read_response_body_failed"


async def test_a_connection_that_dies_under_a_request_is_replaced_once(start_worker, new_pool, post):
    async def behave(call):
        if call.line is worker.lines[0] and call.id > 1:
            call.line.transport.abort()
        else:
            await call.answer(200, await call.read())

    worker = await start_worker(behave)
    pool = new_pool(worker)
    assert await ask(pool, post(), b"1") == (200, b"1")
    assert await ask(pool, post(), b"2") == (200, b"2")
    assert len(worker.lines) == 2
    assert pool.resends == 1


async def test_a_request_that_a_fresh_connection_lost_is_not_repeated(start_worker, new_pool, post):
    async def behave(call):
        call.line.transport.abort()

    worker = await start_worker(behave)
    pool = new_pool(worker)
    with pytest.raises(UpstreamError):
        await ask(pool, post(), b"1")
    assert len(worker.calls) == 1


async def test_a_deadline_ends_its_stream_and_no_other(start_worker, new_pool, post, within):
    go = asyncio.Event()

    async def behave(call):
        body = await call.read()
        if body == b"late":
            await call.reset_by_peer.wait()
        await go.wait()
        if body != b"late":
            await call.answer(200, body)

    worker = await start_worker(behave)
    pool = new_pool(worker)
    other = asyncio.create_task(ask(pool, post(), b"other"))
    with pytest.raises(UpstreamTimeout):
        await ask(pool, post(), b"late", deadline=asyncio.get_running_loop().time() + 0.05)
    go.set()
    assert await other == (200, b"other")
    assert len(worker.lines) == 1


async def test_an_idle_connection_is_closed_in_time(start_worker, new_pool, post, until):
    worker = await start_worker()
    pool = new_pool(worker, idle_timeout_secs=0.05)
    await ask(pool, post(), b"1")
    await until(lambda: len(pool) == 0)
    assert await ask(pool, post(), b"2") == (200, b"2")
    assert len(worker.lines) == 2


async def test_a_worker_of_http1_alone_is_told_apart(start_worker, new_pool, post):
    worker = await start_worker(http2=False)
    pool = new_pool(worker)
    with pytest.raises(NotHttp2):
        await ask(pool, post(), b"x")


async def test_nobody_listens_is_a_failed_connection_for_all_who_wait(start_worker, new_pool, post):
    worker = await start_worker()
    await worker.stop()
    pool = new_pool(worker)
    outcomes = await asyncio.gather(*[ask(pool, post(), b"x") for _ in range(5)], return_exceptions=True)
    assert {outcome.code for outcome in outcomes} == {"call_upstream_connection_failed"}


async def test_a_worker_that_takes_the_connection_and_says_nothing_is_late(start_worker, new_pool, post):
    worker = await start_worker(says_nothing=True)
    pool = new_pool(worker, connect_timeout_secs=0.05)
    with pytest.raises(UpstreamTimeout):
        await ask(pool, post(), b"x")


GARBAGE = {
    "text": b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    "a frame of 16 MB": b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",
    "headers of nobody's stream": b"\x00\x00\x01\x01\x05\x00\x00\x00\x63\x88",
    "a broken header block": b"\x00\x00\x02\x01\x04\x00\x00\x00\x01\xff\xff",
    "a promise": b"\x00\x00\x05\x05\x04\x00\x00\x00\x01\x00\x00\x00\x02\x88",
    "a window beyond all bounds": b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\xff\xff\xff",
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
async def test_garbage_ends_the_connection_and_the_next_one_is_good(start_worker, new_pool, post, garbage):
    async def behave(call):
        if len(worker.lines) == 1:
            call.line.write(garbage)
        else:
            await call.answer(200, await call.read())

    worker = await start_worker(behave)
    pool = new_pool(worker)
    with pytest.raises(UpstreamError) as caught:
        await ask(pool, post(), b"x")
    assert caught.value.code == "call_upstream_request_error"
    assert await ask(pool, post(), b"y") == (200, b"y")


FLOODS = {
    "pings": b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + bytes(8),
    "settings": b"\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    "frames of an unknown kind": b"\x00\x00\x00\xbb\x00\x00\x00\x00\x00",
    "empty data": b"\x00\x00\x00\x00\x00\x00\x00\x00\x01",
}


@pytest.mark.parametrize("frame", FLOODS.values(), ids=FLOODS)
async def test_a_worker_that_floods_is_cut_off(start_worker, new_pool, post, until, frame):
    async def behave(call):
        await call.read()
        call.begin()
        while not call.line.over:
            call.line.write(frame * 5000)
            await asyncio.sleep(0)

    worker = await start_worker(behave)
    pool = new_pool(worker)
    with pytest.raises(UpstreamError):
        await ask(pool, post(), b"x")
    await until(lambda: worker.lines[0].over)


BAD_HEADS = {
    "a line break in a value": [(b":status", b"200"), (b"x", b"a\r\nset-cookie: b")],
    "a name with a capital": [(b":status", b"200"), (b"X-Name", b"a")],
    "a connection header": [(b":status", b"200"), (b"connection", b"close")],
    "a transfer coding": [(b":status", b"200"), (b"transfer-encoding", b"chunked")],
    "no status": [(b"x", b"y")],
    "a status that is no number": [(b":status", b"two")],
}


@pytest.mark.parametrize("fields", BAD_HEADS.values(), ids=BAD_HEADS)
async def test_a_bad_head_ends_its_own_stream_alone(start_worker, new_pool, post, fields):
    async def behave(call):
        if len(worker.calls) > 1:
            await call.answer(200, await call.read())
            return
        encoded = call.line.h2.encoder.encode(fields)
        call.line.write(len(encoded).to_bytes(3) + b"\x01\x04" + call.id.to_bytes(4) + encoded)

    worker = await start_worker(behave)
    pool = new_pool(worker)
    with pytest.raises(UpstreamError) as caught:
        await ask(pool, post(), b"x")
    assert caught.value.code == "call_upstream_request_error"
    assert await ask(pool, post(), b"y") == (200, b"y")
    assert len(worker.lines) == 1


async def test_too_large_a_header_list_ends_the_connection(start_worker, new_pool, post):
    async def behave(call):
        call.begin(200, *[(b"x-%d" % n, b"v" * 1000) for n in range(100)])

    worker = await start_worker(behave)
    pool = new_pool(worker)
    with pytest.raises(UpstreamError):
        await ask(pool, post(), b"x")


async def test_interim_heads_and_trailers_are_passed_over(start_worker, new_pool, post):
    async def behave(call):
        await call.read()
        call.begin(103, (b"link", b"</x>"))
        call.begin(200, (b"content-type", b"text/plain"))
        await call.data(b"body")
        call.line.h2.send_headers(call.id, [(b"x-trailer", b"1")], end_stream=True)
        call.line.flush()

    worker = await start_worker(behave)
    pool = new_pool(worker)
    reply = await pool.call(post(), 0.0, content=b"x")
    assert await reply.read(100) == b"body"
    assert [name for name, _, _ in reply.head.fields] == [b"content-type"]
    assert reply.head.content_type == b"text/plain"


async def test_an_answer_beyond_the_limit_is_refused_and_its_stream_reset(start_worker, new_pool, post, within):
    async def behave(call):
        call.begin()
        await call.data(BIG, end=True)

    worker = await start_worker(behave)
    pool = new_pool(worker)
    reply = await pool.call(post(), 0.0)
    with pytest.raises(UpstreamError) as caught:
        await reply.read(1000)
    assert caught.value.code == "upstream_response_too_large"
    await within(worker.calls[0].reset_by_peer.wait())


async def test_headers_that_http2_forbids_are_never_sent(start_worker, new_pool, post):
    worker = await start_worker()
    pool = new_pool(worker)
    fields = post("/x", (b"connection", b"close"), (b"host", b"h"), (b"te", b"gzip"), (b"x-request-id", b"7"))
    await ask(pool, fields, b"x")
    names = [name for name, _ in worker.calls[0].fields]
    assert names == [b":method", b":scheme", b":authority", b":path", b"x-request-id"]


async def test_a_silent_worker_is_asked_and_gets_nothing_new_until_it_answers(
    start_worker, new_pool, post, until, monkeypatch
):
    monkeypatch.setattr("smg.net.http2.connection.SILENCE_SECS", 0.05)
    go = asyncio.Event()

    async def behave(call):
        await call.read()
        if len(worker.calls) == 1:
            call.line.transport.pause_reading()
            await go.wait()
            call.line.transport.resume_reading()
        await call.answer(200, json.dumps(worker.lines.index(call.line)).encode())

    worker = await start_worker(behave)
    pool = new_pool(worker)
    first = asyncio.create_task(ask(pool, post(), b"x"))
    await until(lambda: worker.calls)
    await until(lambda: pool._all[0].room == 0)
    assert await ask(pool, post(), b"x") == (200, b"1")
    go.set()
    assert await first == (200, b"0")
