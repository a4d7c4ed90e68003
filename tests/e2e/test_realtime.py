"""Sessions through a gateway process that is told to leave."""

from contextlib import asynccontextmanager

import pytest

from support.client import Client
from support.plain_http import post
from support.processes import launched_beside
from support.raw_engine import raw_engine
from support.waiting import until, within
from support.websocket import CREDENTIAL, PATH, TARGET, UPGRADE, exactly, grant


@asynccontextmanager
async def session(*flags):
    """A gateway, and both ends of a session through it."""
    async with raw_engine(gets=PATH) as engine, launched_beside(*flags) as gateway:
        assert post(f"{gateway.url}/workers", {"url": engine.url, "labels": {"realtime": "true"}}).status == 202
        await until(lambda: gateway.readiness().status == 200, "a ready worker")
        client = await Client.open(gateway.port)
        try:
            await client.send("GET", TARGET, None, [*UPGRADE, CREDENTIAL])
            call = await engine.call()
            await grant(call)
            assert (await within(client.reader.readuntil(b"\r\n\r\n"))).startswith(b"HTTP/1.1 101 ")
            yield gateway, client, call
        finally:
            await client.closed()


async def no_longer_listening(gateway):
    """Wait until nobody new gets in."""

    def refused():
        try:
            gateway.readiness()
        except OSError:  # refused, or reset in the moment that the listener closes
            return True
        return False

    await until(refused, "the end of listening")


async def both_ways(client, call):
    await client.write(b"up")
    assert await exactly(call, 2) == b"up"
    await call.write(b"down")
    assert await exactly(client, 4) == b"down"


async def test_a_drain_leaves_a_session_its_grace_period_and_then_cuts_it():
    async with session("--shutdown-grace-period-secs", "4") as (gateway, client, call):
        gateway.drain()
        await both_ways(client, call)
        await no_longer_listening(gateway)
        await both_ways(client, call)
        assert await client.rest() == b""
        await call.abandoned()
        await until(lambda: not gateway.process.running, "the gateway's end")
        assert gateway.process.wait() == 0
        assert "grace period over: cutting what is left" in gateway.written
        assert "Traceback" not in gateway.written


@pytest.mark.parametrize("leaves", ["client", "worker"])
async def test_a_session_that_ends_meanwhile_is_all_that_a_drain_waits_for(leaves):
    async with session("--shutdown-grace-period-secs", "8") as (gateway, client, call):
        gateway.drain()
        await no_longer_listening(gateway)
        await both_ways(client, call)
        if leaves == "client":
            client.close()
            await call.abandoned()
            call.close()
        else:
            call.close()
            assert await client.rest() == b""
            client.close()
        await until(lambda: not gateway.process.running, "the gateway's end")
        assert gateway.process.wait() == 0
        assert "cutting" not in gateway.written
