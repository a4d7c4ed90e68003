"""Clients and workers that leave, at every point of a request. Lease, permit and connection come back each time.

That nothing is left over is also checked by the stage at the end of every other test.
"""

import asyncio

import pytest

from support.bodies import CHAT, chat, encoded, padded_chat
from support.client import LEAVING, Client
from support.raw_engine import answers
from support.waiting import until, within

leaving = pytest.mark.parametrize("leave", LEAVING.values(), ids=LEAVING)


async def assert_nothing_is_held(gateway):
    await gateway.settled()
    assert set(gateway.loads) <= {0}
    assert gateway.permits == (0, 0)


async def assert_left(gateway, engine):
    """A client left and nothing else happened: no answer is on record, and the worker is not to blame."""
    await assert_nothing_is_held(gateway)
    assert gateway.worker(engine).breaker.failures == 0
    (line,) = gateway.access_lines()
    assert " status=499 " in line
    scrape = await gateway.scrape()
    assert scrape.matching("smg_http_responses_total", path=CHAT) == []
    assert scrape.value("smg_http_connections_active") == 0


async def fill_every_buffer(call):
    """Write events until nothing moves any more on the way to the client; returns how many bytes went in."""
    call.writer.transport.set_write_buffer_limits(high=0)
    written = 0
    try:
        while True:
            async with asyncio.timeout(0.2):
                await call.chunk(b"x" * 50_000)
            written += 50_000
    except TimeoutError:
        return written


@leaving
async def test_a_client_that_leaves_the_queue_takes_no_permit(stage, leave):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine, max_concurrent_requests=1)
    first = await gateway.send("POST", CHAT, chat("first"))
    call = await engine.call()
    second = await gateway.send("POST", CHAT, chat("second"))
    await until(lambda: gateway.permits == (1, 1))
    leave(second)
    await until(lambda: gateway.permits == (1, 0))
    await call.answer()
    assert (await first.answer()).status == 200
    await assert_nothing_is_held(gateway)
    assert len(engine.calls) == 1


@pytest.mark.parametrize("leave", [Client.close, Client.reset])
async def test_a_client_that_leaves_a_queue_with_an_unread_body_is_noticed(stage, leave):
    """Its connection is not read from while it waits, as its body has more than may be held."""
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine, max_concurrent_requests=1)
    first = await gateway.send("POST", CHAT, chat("first"))
    call = await engine.call()
    second = await gateway.connect()
    await second.send("POST", CHAT, b"x" * 300_000, length=10_000_000)
    await until(lambda: gateway.permits == (1, 1))
    leave(second)
    await until(lambda: gateway.permits == (1, 0))
    await call.answer()
    assert (await first.answer()).status == 200


@leaving
async def test_a_client_that_leaves_before_the_head_ends_the_worker_s_work(stage, leave):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine)
    client = await gateway.send("POST", CHAT, chat())
    call = await engine.call()
    assert gateway.loads == [1]
    leave(client)
    await within(call.abandoned())
    await assert_left(gateway, engine)


@leaving
async def test_a_client_that_leaves_in_the_middle_of_a_plain_answer_ends_the_worker_s_work(stage, leave):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine)
    client = await gateway.send("POST", CHAT, chat())
    call = await engine.call()
    await call.begin(200, "content-type: application/json", "content-length: 1000")
    await call.write(b'{"half":')
    leave(client)
    await within(call.abandoned())
    await assert_left(gateway, engine)


@leaving
async def test_a_client_that_leaves_a_stream_ends_the_worker_s_work(stage, leave):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine)
    client = await gateway.send("POST", CHAT, chat(stream=True))
    call = await engine.call()
    await call.begin_stream()
    await call.event("one")
    await client.head()
    assert await client.chunk()
    leave(client)
    await within(call.abandoned())
    await assert_nothing_is_held(gateway)
    assert gateway.worker(engine).breaker.failures == 0
    (line,) = gateway.access_lines()
    assert " status=200 " in line  # it began well, and that was the answer


@leaving
async def test_a_client_that_leaves_a_stream_before_its_first_event_is_noticed(stage, leave):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine)
    client = await gateway.send("POST", CHAT, chat(stream=True))
    call = await engine.call()
    await call.begin_stream()
    await client.head()
    leave(client)
    await within(call.abandoned())
    await assert_nothing_is_held(gateway)


@leaving
async def test_a_client_that_stopped_reading_and_then_leaves_is_noticed(stage, leave):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine)
    client = await gateway.connect(receive_bytes=4096)
    await client.send("POST", CHAT, chat(stream=True))
    call = await engine.call()
    await call.begin_stream()
    written = await fill_every_buffer(call)
    assert written > 100_000
    leave(client)
    await within(call.abandoned())
    await assert_nothing_is_held(gateway)


@leaving
async def test_a_client_that_leaves_between_two_attempts_is_not_tried_for_any_more(stage, leave):
    engine = await stage.raw_engine(answers(503))
    gateway = await stage.gateway(engine, retry_initial_backoff_ms=600_000, retry_max_backoff_ms=600_000)
    client = await gateway.send("POST", CHAT, chat())
    await until(lambda: engine.calls and not gateway.worker(engine).load)
    leave(client)
    await assert_nothing_is_held(gateway)
    assert len(engine.calls) == 1
    (line,) = gateway.access_lines()
    assert " status=499 " in line


@leaving
async def test_a_client_that_leaves_in_the_middle_of_a_buffered_upload_reaches_no_worker(stage, leave):
    engine = await stage.engine()
    gateway = await stage.gateway(engine)
    client = await gateway.send("POST", CHAT, b'{"half":', length=1000)
    await until(lambda: gateway.in_flight)
    leave(client)
    await assert_nothing_is_held(gateway)
    assert engine.machine.seen[CHAT] == 0
    if leave is LEAVING["half close"]:  # it still listens, and gets to read why
        answer = await client.answer()
        assert (answer.status, answer.code) == (400, "request_body_aborted")


@leaving
async def test_a_client_that_leaves_in_the_middle_of_a_streamed_upload_ends_the_worker_s_request(stage, leave):
    engine = await stage.raw_engine(reads_bodies=False)
    gateway = await stage.gateway(engine, disable_retries=True)
    client = await gateway.send("POST", CHAT, b'{"half":', length=1000)
    call = await engine.call()
    assert call.headers["content-length"] == "1000"
    leave(client)
    await within(call.abandoned())
    await assert_nothing_is_held(gateway)
    assert gateway.worker(engine).breaker.failures == 0
    if leave is LEAVING["half close"]:
        assert (await client.answer()).code == "request_body_aborted"


async def test_a_client_that_breaks_its_chunks_in_a_buffered_upload_is_told(stage):
    engine = await stage.engine()
    gateway = await stage.gateway(engine)
    client = await gateway.connect()
    await client.send("POST", CHAT, None, ["content-type: application/json", "transfer-encoding: chunked"])
    await client.write(b"5\r\nhello\r\nno size\r\n")
    answer = await client.answer()
    assert (answer.status, answer.code) == (400, "request_body_aborted")
    assert await client.rest() == b""
    await assert_nothing_is_held(gateway)


# --- workers


async def test_a_worker_that_dies_in_the_middle_of_an_upload_is_an_error_of_its_own(stage):
    engine = await stage.raw_engine(reads_bodies=False)
    gateway = await stage.gateway(engine, disable_retries=True)
    client = await gateway.send("POST", CHAT, b'{"half":', length=1000)
    call = await engine.call()
    call.reset()
    answer = await client.answer()
    assert (answer.status, answer.code) == (500, "call_upstream_request_error")
    await assert_nothing_is_held(gateway)
    assert gateway.worker(engine).breaker.failures == 1


async def test_a_worker_that_answers_before_the_upload_is_over_has_answered(stage):
    engine = await stage.raw_engine(reads_bodies=False)
    gateway = await stage.gateway(engine, disable_retries=True)
    client = await gateway.send("POST", CHAT, b'{"half":', length=1000)
    call = await engine.call()
    await call.answer(413, b'{"error":"too much for me"}')
    answer = await client.answer()
    assert (answer.status, answer.json) == (413, {"error": "too much for me"})
    assert "x-smg-error-code" not in answer.headers
    await assert_nothing_is_held(gateway)


@pytest.mark.parametrize("half_sent", [b"", b'data: {"half"', b"data: half\n"])
@pytest.mark.parametrize("death", ["reset", "close"])
async def test_a_worker_that_dies_in_a_stream_leaves_one_error_and_a_proper_end(stage, half_sent, death):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine)
    client = await gateway.send("POST", CHAT, chat(stream=True))
    call = await engine.call()
    await call.begin_stream()
    await call.event("one")
    head = await client.head()
    assert await client.chunk() == b"data: one\n\n"
    if half_sent:
        await call.chunk(half_sent)
        assert await client.chunk() == half_sent
    getattr(call, death)()
    rest = await client.rest_of_body()
    first, *events = (half_sent + rest).decode().rstrip("\n").split("\n\n")
    if half_sent:
        assert first == half_sent.decode().rstrip("\n")
    else:
        events = [first, *events]
    error, done = events
    assert '"type":"stream_error"' in error
    assert done == "data: [DONE]"
    await assert_nothing_is_held(gateway)
    assert gateway.worker(engine).breaker.failures == 1
    # The connection has seen a proper end: it takes the next request.
    assert "connection" not in head.headers
    await client.send("GET", "/health")
    assert (await client.answer()).status == 200


async def test_a_stream_that_falls_silent_ends_with_its_deadline(stage):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine, request_timeout_secs=0.5)
    client = await gateway.send("POST", CHAT, chat(stream=True))
    call = await engine.call()
    await call.begin_stream()
    await call.event("one")
    answer = await client.answer()
    one, error, done = answer.events
    assert (one, done) == ("one", "[DONE]")
    assert '"type":"stream_error"' in error
    await within(call.abandoned())
    await assert_nothing_is_held(gateway)
    assert gateway.worker(engine).breaker.failures == 1
    assert (await gateway.scrape()).value("smg_router_request_errors_total", error_type="timeout") == 1


async def test_a_worker_that_dies_while_clients_wait_fails_each_of_them_once(stage):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine, disable_retries=True)
    clients = [await gateway.send("POST", CHAT, chat(str(n))) for n in range(5)]
    calls = [await engine.call() for _ in clients]
    assert gateway.loads == [5]
    for call in calls:
        call.reset()
    for client in clients:
        assert (await client.answer()).code == "call_upstream_request_error"
    await assert_nothing_is_held(gateway)
    assert gateway.worker(engine).breaker.failures == 5


async def test_a_client_s_leaving_disturbs_nobody_else_on_the_same_worker(stage):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine)
    stays, leaves = [await gateway.send("POST", CHAT, chat(name, stream=True)) for name in ("stays", "leaves")]
    calls = {}
    for _ in range(2):
        call = await engine.call()
        calls[call.json["messages"][0]["content"]] = call
        await call.begin_stream()
    await leaves.head()
    leaves.reset()
    await within(calls["leaves"].abandoned())
    await calls["stays"].event("hello")
    await calls["stays"].end_stream()
    assert (await stays.answer()).events == ["hello"]


async def test_a_large_upload_is_complete_when_the_worker_is_slow_to_take_it(stage):
    """The client is held back meanwhile, and nobody loses a byte."""
    engine = await stage.raw_engine(reads_bodies=False)
    gateway = await stage.gateway(engine, disable_retries=True)
    body = padded_chat(3_000_000)
    client = await gateway.connect()
    client.writer.write(b"POST %b HTTP/1.1\r\nhost: g\r\ncontent-type: application/json\r\n" % CHAT.encode())
    client.writer.write(b"content-length: %d\r\n\r\n" % len(body) + encoded(body))
    call = await engine.call()
    await call.read_body()
    assert call.body == body
    await call.answer()
    assert (await client.answer()).status == 200
