"""Sessions with workers that speak TLS, where a connection has no half that could be closed."""

import asyncio

import pytest

from smg.net.http1 import pool
from support.certificates import self_signed, server_context
from support.client import LEAVING
from support.waiting import until
from support.websocket import CLOSE, TARGET, close, exactly, fill, frame, pattern


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture
async def speaker(stage, certificate, monkeypatch):
    """An engine with a certificate that the gateway trusts."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[1]))
    pool.trusted.cache_clear()
    yield await stage.speaker(tls=server_context(*certificate))
    pool.trusted.cache_clear()


async def test_bytes_pass_as_they_are(stage, speaker):
    gateway = await stage.speaking(speaker)
    client, call = await stage.session(gateway, speaker, early=b"early, ")
    assert call.path == TARGET
    await call.write(b"late")
    assert await exactly(client, 11) == b"early, late"
    up = frame(1, bytes(100_000), masked=True)
    await client.write(up)
    assert await exactly(call, len(up)) == up


@pytest.mark.parametrize("leave", LEAVING.values(), ids=LEAVING)
async def test_a_client_that_leaves_ends_the_session_at_the_worker(stage, speaker, leave):
    gateway = await stage.speaking(speaker)
    client, call = await stage.session(gateway, speaker)
    await client.write(b"the last word")
    assert await exactly(call, 13) == b"the last word"
    leave(client)
    assert await call.reader.read() == b""
    call.close()
    await gateway.settled()


@pytest.mark.parametrize("reset", [False, True])
async def test_a_worker_that_leaves_ends_the_session_at_the_client(stage, speaker, reset):
    gateway = await stage.speaking(speaker)
    client, call = await stage.session(gateway, speaker)
    goodbye = frame(CLOSE, close(1001))
    await call.write(goodbye)
    assert await exactly(client, len(goodbye)) == goodbye
    call.reset() if reset else call.close()
    assert await client.rest() == b""
    await client.closed()
    await gateway.settled()


async def test_what_was_said_before_an_end_arrives(stage, speaker):
    gateway = await stage.speaking(speaker)
    client, call = await stage.session(gateway, speaker)
    data = pattern(3 << 20)
    call.writer.write(data)
    call.close()
    assert await client.rest() == data
    client.close()
    await gateway.settled()


async def test_a_slow_reader_holds_the_worker_back_and_loses_nothing(stage, speaker):
    gateway = await stage.speaking(speaker)
    client, call = await stage.session(gateway, speaker, receive_bytes=4096)
    (tunnel,) = gateway.gateway.tunnels._sweeper.members()
    sent = await fill(call, tunnel.worker)
    assert tunnel.client.transport.get_write_buffer_size() <= 2 * 256 * 1024 + 4096
    reading = asyncio.create_task(client.reader.readexactly(sent))
    await until(reading.done, "the rest")
    assert reading.result() == pattern(sent)


async def test_a_slow_worker_holds_the_client_back(stage, speaker):
    gateway = await stage.speaking(speaker)
    client, call = await stage.session(gateway, speaker)
    (tunnel,) = gateway.gateway.tunnels._sweeper.members()
    sent = await fill(client, tunnel.client)
    assert tunnel.worker.transport.get_write_buffer_size() <= 3 * 256 * 1024
    reading = asyncio.create_task(call.reader.readexactly(sent))
    await until(reading.done, "the rest")
    assert reading.result() == pattern(sent)
