"""What passes between the ends of a session, and how it ends."""

import asyncio

import pytest

from support.client import LEAVING
from support.waiting import until
from support.websocket import BINARY, CLOSE, PATH, TEXT, close, exactly, fill, frame, grant, pattern


async def test_bytes_pass_as_they_are(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    client, call = await stage.session(gateway, speaker)
    up = frame(TEXT, b"hello", masked=True, last=False) + frame(0, b" there", masked=True)
    down = frame(BINARY, bytes(70_000)) + frame(CLOSE, close(4000, "réservé"))
    await client.write(up)
    assert await exactly(call, len(up)) == up
    await call.write(down)
    assert await exactly(client, len(down)) == down


async def test_what_comes_with_or_before_the_handshake_is_kept_in_order(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    client = await stage.ask(gateway)
    await client.write(b"early one, ")
    call = await speaker.call()
    await client.write(b"early two, ")
    await grant(call, early=b"first, ")
    await client.reader.readuntil(b"\r\n\r\n")
    await client.write(b"late")
    await call.write(b"second")
    assert await exactly(call, 26) == b"early one, early two, late"
    assert await exactly(client, 13) == b"first, second"


async def test_a_worker_that_says_goodbye_with_its_handshake_is_heard(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    client = await stage.ask(gateway)
    call = await speaker.call()
    await grant(call, early=frame(CLOSE, close(1013, "busy")))
    call.close()
    await client.reader.readuntil(b"\r\n\r\n")
    assert await client.rest() == frame(CLOSE, close(1013, "busy"))
    await client.closed()
    await gateway.settled()


@pytest.mark.parametrize("leave", LEAVING.values(), ids=LEAVING)
async def test_a_client_that_leaves_ends_the_session_at_the_worker(stage, leave):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    client, call = await stage.session(gateway, speaker)
    assert gateway.worker(speaker).load == 1
    leave(client)
    await call.abandoned()
    await gateway.settled()


@pytest.mark.parametrize("reset", [False, True])
async def test_a_worker_that_leaves_ends_the_session_at_the_client(stage, reset):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    client, call = await stage.session(gateway, speaker)
    await call.write(b"the last word")
    assert await exactly(client, 13) == b"the last word"
    call.reset() if reset else call.close()
    assert await client.rest() == b""
    await client.closed()
    await gateway.settled()


async def test_the_way_back_stays_open_when_one_end_stops_sending(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    client, call = await stage.session(gateway, speaker)
    await client.write(b"question")
    client.half_close()
    assert await call.reader.read() == b"question"
    await call.write(b"answer")
    assert await exactly(client, 6) == b"answer"
    assert gateway.worker(speaker).load == 1
    call.close()
    assert await client.rest() == b""
    await gateway.settled()


async def test_the_other_way_round_too(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    client, call = await stage.session(gateway, speaker)
    await call.write(b"question")
    call.writer.write_eof()
    assert await client.reader.read() == b"question"
    await client.write(b"answer")
    assert await exactly(call, 6) == b"answer"
    await client.closed()
    await call.abandoned()
    await gateway.settled()


async def test_a_client_that_leaves_during_the_handshake_ends_it(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    client = await stage.ask(gateway)
    call = await speaker.call()
    client.close()
    await call.abandoned()
    await gateway.settled()


@pytest.mark.parametrize("left", ["silent after an end", "held and gone"])
async def test_what_does_not_end_by_itself_is_cut(stage, monkeypatch, left):
    monkeypatch.setattr("smg.net.tunnel.ENDING_SECS", 0.2)
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    client, call = await stage.session(gateway, speaker)
    if left == "held and gone":
        (tunnel,) = gateway.gateway.tunnels._sweeper.members()
        await fill(client, tunnel.client)
    client.writer.transport.abort() if left == "held and gone" else client.half_close()
    await gateway.settled()
    call.reset()


async def test_a_slow_reader_holds_the_other_end_back_and_loses_nothing(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    client, call = await stage.session(gateway, speaker, receive_bytes=4096)
    (tunnel,) = gateway.gateway.tunnels._sweeper.members()
    sent = await fill(call, tunnel.worker)
    held = tunnel.client.transport.get_write_buffer_size()
    assert held <= 2 * 256 * 1024 + 4096
    reading = asyncio.create_task(client.reader.readexactly(sent))
    await until(reading.done, "the rest")
    assert reading.result() == pattern(sent)
    assert not tunnel.worker.held


async def test_a_slow_worker_holds_the_client_back(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    client, call = await stage.session(gateway, speaker)
    (tunnel,) = gateway.gateway.tunnels._sweeper.members()
    sent = await fill(client, tunnel.client)
    assert tunnel.worker.transport.get_write_buffer_size() <= 2 * 256 * 1024
    reading = asyncio.create_task(call.reader.readexactly(sent))
    await until(reading.done, "the rest")
    assert reading.result() == pattern(sent)


async def test_a_session_holds_its_permit_and_gives_it_back(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker, max_concurrent_requests=1, queue_size=0)
    client, call = await stage.session(gateway, speaker)
    assert gateway.permits == (1, 0)
    assert (await (await stage.ask(gateway)).answer()).code == "admission_queue_full"
    client.close()
    await call.abandoned()
    await gateway.settled()
    assert gateway.permits == (0, 0)


async def test_a_gateway_that_ends_cuts_the_sessions_that_are_left(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    client, call = await stage.session(gateway, speaker)
    gateway.gateway.begin_draining()
    gateway.gateway.stop_listening()
    await client.write(b"still served")
    assert await exactly(call, 12) == b"still served"
    assert gateway.in_flight == 1
    await gateway.gateway.close()
    assert await client.rest() == b""
    await call.abandoned()
    assert gateway.at_rest


async def test_a_worker_that_is_removed_keeps_its_sessions(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker, worker={"health": {"drain_settle_secs": 0}})
    client, call = await stage.session(gateway, speaker)
    worker = gateway.worker(speaker)
    assert (await gateway.ask("DELETE", f"/workers/{worker.id}")).status == 202
    await until(lambda: not gateway.workers, "the removal")
    await client.write(b"still here")
    assert await exactly(call, 10) == b"still here"
    client.close()
    await call.abandoned()
    await until(lambda: worker.load == 0, "the lease")


async def test_the_accounts_of_a_session(stage):
    speaker = await stage.speaker()
    gateway = await stage.speaking(speaker)
    client, call = await stage.session(gateway, speaker)
    await client.write(b"12345")
    await exactly(call, 5)
    await call.write(b"123")
    await exactly(client, 3)
    client.close()
    await call.abandoned()
    await gateway.settled()
    (line,) = gateway.access_lines(f'path="{PATH}"')
    assert "status=101" in line
    assert f'worker="{speaker.url}" request_bytes=5 response_bytes=3' in line
    scrape = await gateway.scrape()
    labels = {"connection_mode": "websocket", "endpoint": "realtime", "model": "m", "streaming": "true"}
    assert scrape.value("smg_router_requests_total", **labels) == 1
