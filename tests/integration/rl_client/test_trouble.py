"""Both twins when no reply comes, or none in time."""

import asyncio
import errno
import itertools
import math
import socket

import pytest

from smg.rl import RL, aio

CALL = {"worker_id": "w", "url": "http://e", "status": 200, "latency_ms": 7, "body": {"ok": 1}}
NOBODY = {"protocol_version": 1, "workers": [], "total": 0}


# --- trouble on the way


async def test_a_port_that_nobody_listens_on_refuses(client):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            await client(f"http://127.0.0.1:{held.getsockname()[1]}").workers()


async def test_a_name_that_does_not_exist_is_an_os_error(client):
    with pytest.raises(OSError):  # noqa: PT011  which one is the resolver's
        await client("http://gateway.invalid").workers()


async def closes(turn):
    turn.writer.close()


async def resets(turn):
    turn.reset()


async def breaks_off(turn):
    await turn.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")


async def breaks_off_a_chunk(turn):
    await turn.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n{")


async def talks_nonsense(turn):
    await turn.write(b"\0\1 I am a teapot\r\n\r\n")
    await turn.abandoned()


@pytest.mark.parametrize("script", [closes, resets, breaks_off, breaks_off_a_chunk, talks_nonsense])
async def test_a_reply_that_is_none_is_a_connection_error(client, stand_in, script):
    server = await stand_in(script)
    with pytest.raises(ConnectionError):
        await client(server.url).call("w", "op")
    assert len(server.requests) == 1  # and nothing is repeated


# --- deadlines


async def hangs(turn):
    await turn.abandoned()


async def trickles(turn):
    """A head that never ends, and is never silent."""
    await turn.write(b"HTTP/1.1 200 OK\r\n")
    for number in itertools.count():
        await turn.write(b"X-%d: y\r\n" % number)
        await asyncio.sleep(0.01)


async def never_ends(turn):
    await turn.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        await turn.write(b" ")
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("script", [hangs, trickles, never_ends])
async def test_a_timeout_bounds_the_whole_request(client, stand_in, script):
    server = await stand_in(script)
    for rl, options in ((client(server.url, timeout=0.2), {}), (client(server.url, timeout=600), {"timeout": 0.2})):
        with pytest.raises(TimeoutError, match=r"no complete reply within 0\.2 s"):
            await rl.call("w", "op", **options)


async def test_a_timeout_bounds_sending_too(client, stand_in):
    async def reads_nothing(turn):
        await asyncio.Event().wait()

    server = await stand_in(reads_nothing, reads_bodies=False)
    with pytest.raises(TimeoutError):
        await client(server.url).call("w", "op", {"tensor": "y" * (32 << 20)}, timeout=0.3)


async def test_a_server_that_takes_a_request_slowly_buys_no_time(client, stand_in):
    size, taken = 64 << 20, 0

    async def sips(turn):
        nonlocal taken
        while data := await turn.reader.read(1 << 16):
            taken += len(data)
            await asyncio.sleep(0.01)

    server = await stand_in(sips, reads_bodies=False)
    with pytest.raises(TimeoutError):
        await client(server.url).call("w", "op", {"tensor": "y" * size}, timeout=0.3)
    assert taken < size


@pytest.mark.parametrize("twin", [RL, aio.RL], ids=["blocking", "coroutine"])
async def test_the_systems_own_timeout_keeps_its_number(twin, monkeypatch):
    """A network that is gone says so long before a bound of minutes, and is told apart from it."""
    gone = TimeoutError(errno.ETIMEDOUT, "the network is gone")

    def fail(*arguments, **options):
        raise gone

    monkeypatch.setattr(socket.socket, "connect", fail)
    monkeypatch.setattr(asyncio, "open_connection", fail)
    with pytest.raises(TimeoutError) as error:
        await twin("http://127.0.0.1:9").workers()
    assert error.value is gone


async def test_a_timeout_of_one_call_may_be_longer_than_the_clients(client, stand_in):
    async def play(turn):
        await asyncio.sleep(0.3)
        await turn.answer(CALL)

    rl = client((await stand_in(play)).url, timeout=0.1)
    assert (await rl.call("w", "op", timeout=60)).status == 200


@pytest.mark.parametrize("timeout", [math.inf, 1e12])
async def test_a_timeout_may_be_as_long_as_one_likes(client, stand_in, answers, timeout):  # noqa: ASYNC109  a value to be taken
    assert await client((await stand_in(answers(NOBODY))).url, timeout=timeout).workers() == []
