"""Clients and workers that leave, and workers that are slow. No file, lease or connection is left over."""

import pytest

from support.client import LEAVING, Client
from support.forms import FORM, file, form, model
from support.raw_engine import answers
from support.waiting import until, within

LARGE = bytes(8 * 1024 * 1024)
BODY = form(file(LARGE), model())

leaving = pytest.mark.parametrize("leave", LEAVING.values(), ids=LEAVING)


@leaving
async def test_a_client_that_leaves_mid_upload_leaves_no_file(stage, leave):
    engine = await stage.raw_engine(answers())
    gateway = await stage.gateway(engine)
    client = await gateway.connect()
    await client.send("POST", stage.path, BODY[: 4 * 1024 * 1024], [FORM], length=len(BODY))
    await until(lambda: stage.spooled, "a temporary file")
    leave(client)
    await gateway.settled()
    await stage.swept()
    assert engine.calls == []


async def test_a_client_that_ends_its_upload_early_is_told(stage):
    engine = await stage.raw_engine(answers())
    gateway = await stage.gateway(engine)
    client = await gateway.connect()
    await client.send("POST", stage.path, BODY[: 2 * 1024 * 1024], [FORM], length=len(BODY))
    await until(lambda: stage.spooled, "a temporary file")
    client.half_close()
    answer = await client.answer()
    assert (answer.status, answer.code) == (400, "request_body_aborted")
    assert engine.calls == []


async def test_a_client_that_stalls_is_told(stage):
    engine = await stage.raw_engine(answers())
    gateway = await stage.gateway(engine, stream_body_stall_timeout_secs=0.2)
    client = await gateway.connect()
    await client.send("POST", stage.path, BODY[: 2 * 1024 * 1024], [FORM], length=len(BODY))
    answer = await client.answer()
    assert (answer.status, answer.code) == (408, "request_body_stalled")
    await stage.swept()


@pytest.mark.parametrize("leave", [Client.close, Client.reset])
async def test_a_client_that_leaves_while_the_worker_reads_ends_the_worker_s_work(stage, leave):
    engine = await stage.raw_engine(reads_bodies=False)
    gateway = await stage.gateway(engine)
    client = await gateway.send("POST", stage.path, BODY, [FORM])
    call = await engine.call()
    assert gateway.loads == [1]
    assert stage.spooled
    leave(client)
    await within(call.abandoned())
    await gateway.settled()
    await stage.swept()
    assert gateway.worker(engine).breaker.failures == 0


@pytest.mark.parametrize("leave", [lambda call: call.close(), lambda call: call.reset()], ids=["close", "reset"])
async def test_a_worker_that_dies_while_it_reads_is_an_error_and_no_second_attempt(stage, leave):
    engine = await stage.raw_engine(reads_bodies=False)
    other = await stage.raw_engine(reads_bodies=False)
    gateway = await stage.gateway(engine, other)
    client = await gateway.send("POST", stage.path, BODY, [FORM])
    await until(lambda: engine.calls or other.calls)
    (call,) = [*engine.calls, *other.calls]
    leave(call)
    answer = await client.answer()
    assert (answer.status, answer.code) == (500, "call_upstream_request_error")
    await gateway.settled()
    await stage.swept()
    assert len(engine.calls) + len(other.calls) == 1


async def test_a_worker_that_answers_before_it_has_read_is_heard(stage):
    engine = await stage.raw_engine(reads_bodies=False)
    gateway = await stage.gateway(engine)
    client = await gateway.send("POST", stage.path, BODY, [FORM])
    call = await engine.call()
    await call.begin(413, "content-type: text/plain", "content-length: 8")
    await call.write(b"too long")
    answer = await client.answer()
    assert (answer.status, answer.body) == (413, b"too long")
    await within(call.abandoned())
    await gateway.settled()


async def test_a_slow_worker_sets_the_pace(stage):
    engine = await stage.raw_engine(reads_bodies=False)
    gateway = await stage.gateway(engine)
    client = await gateway.send("POST", stage.path, BODY, [FORM])
    call = await engine.call()
    (pool,) = [pool for pool in gateway.gateway.upstream.pools if pool.busy]
    (connection,) = pool._all
    await until(lambda: not connection._writable, "a worker that falls behind")
    assert connection._upload.held
    assert connection.transport.get_write_buffer_size() < 512 * 1024
    await call.read_body()
    await call.answer(200, b'{"text":"all"}')
    assert (await client.answer()).json == {"text": "all"}
    assert LARGE in call.body


async def test_a_gateway_that_ends_keeps_no_file(stage):
    engine = await stage.raw_engine(reads_bodies=False)
    gateway = await stage.gateway(engine)
    await gateway.send("POST", stage.path, BODY, [FORM])
    await engine.call()
    await gateway.gateway.close()
    await stage.swept()
