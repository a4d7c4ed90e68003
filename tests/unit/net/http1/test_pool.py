"""What the pool does with connections, without a network."""

import asyncio

import pytest

from smg.errors import UpstreamError
from smg.net.address import address_of
from smg.net.http1.client import LostBeforeAnswer, UpstreamConnection
from smg.net.http1.pool import Pool, PoolOptions


class Loop:
    """The running loop, whose connections are made and may be lost before anybody has them."""

    def __init__(self, loop, new_wire):
        self._loop = loop
        self._new_wire = new_wire
        self.made = []
        self.lose_at_once = False
        self.error = None

    async def create_connection(self, factory, host, port, **options):
        if self.error:
            raise self.error
        connection = factory()
        wire = self._new_wire()
        connection.connection_made(wire)
        self.made.append((connection, wire, (host, port, options)))
        if self.lose_at_once:
            connection.connection_lost(None)
        return wire, connection

    def __getattr__(self, name):
        return getattr(self._loop, name)


@pytest.fixture
async def loop(calm_loop, new_wire):
    return Loop(calm_loop, new_wire)


@pytest.fixture
async def pool(loop):
    pool = Pool(address_of("http://worker:8000"), PoolOptions(max_idle=2))
    pool._loop = loop
    return pool


SMALL = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def exchange(pool, loop, turn):
    calling = asyncio.ensure_future(pool.call(b"request", 0.0))
    await turn()
    connection = next(c for c, _, _ in loop.made if not c.idle)
    connection.data_received(SMALL)
    assert (await calling).take(10) == b"ok"
    return connection


async def test_a_connection_lost_before_anybody_had_it_is_not_counted(pool, loop):
    loop.lose_at_once = True
    with pytest.raises(LostBeforeAnswer):
        await pool.call(b"request", 0.0)
    assert len(pool) == 0


async def test_the_connection_used_last_goes_out_first(pool, loop, turn):
    calls = [asyncio.ensure_future(pool.call(b"request", 0.0)) for _ in range(2)]
    await turn()
    first, second = (connection for connection, _, _ in loop.made)
    for connection in (second, first):
        connection.data_received(SMALL)
    await asyncio.gather(*calls)
    assert await exchange(pool, loop, turn) is first
    assert first.reused
    assert len(pool) == 2


async def test_surplus_connections_are_not_kept(pool, loop, turn):
    calls = [asyncio.ensure_future(pool.call(b"request", 0.0)) for _ in range(3)]
    await turn()
    for connection, _, _ in loop.made:
        connection.data_received(SMALL)
    await asyncio.gather(*calls)
    assert [wire.aborted for _, wire, _ in loop.made] == [False, False, True]
    assert len(pool) == 2


async def test_the_sweep_expires_exchanges_and_closes_old_connections(pool, loop, turn):
    await exchange(pool, loop, turn)
    late = asyncio.ensure_future(pool.call(b"request", 5.0))
    await turn()
    pool.sweep(5.1)
    with pytest.raises(UpstreamError, match="in time"):
        await late
    assert len(pool) == 0
    connection = await exchange(pool, loop, turn)
    pool.sweep(connection.idle_since + 2.9)
    assert len(pool) == 1
    pool.sweep(connection.idle_since + 3.1)
    assert len(pool) == 0
    assert pool._idle == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "call_upstream_connection_failed"),
        (OSError("Multiple exceptions"), "call_upstream_connection_failed"),
        (TimeoutError(), "call_upstream_timeout"),
    ],
)
async def test_what_prevents_a_connection_is_an_upstream_error(pool, loop, error, code):
    loop.error = error
    with pytest.raises(UpstreamError) as caught:
        await pool.call(b"request", 0.0)
    assert caught.value.code == code


async def test_a_worker_behind_tls_is_asked_by_its_name(loop, turn):
    pool = Pool(address_of("https://worker"), PoolOptions())
    pool._loop = loop
    await exchange(pool, loop, turn)
    ((_, _, (host, port, options)),) = loop.made
    assert (host, port, options["server_hostname"]) == ("worker", 443, "worker")
    assert options["ssl"] is not None


async def test_an_owner_may_be_told_twice_that_a_connection_is_gone(pool, loop, turn):
    connection = await exchange(pool, loop, turn)
    assert isinstance(connection, UpstreamConnection)
    pool.forget(connection)
    pool.forget(connection)
    assert len(pool) == 0
    assert pool._idle == []
