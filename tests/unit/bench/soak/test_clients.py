"""A client of the soak, in front of listeners of all kinds."""

import asyncio
import itertools
import random
from contextlib import asynccontextmanager, suppress

import pytest
from bench import wire
from bench.soak import clients
from bench.soak.accounts import LEFT, REFUSED, UNANSWERED, WHOLE, WRONG, Account
from bench.soak.clients import Client
from bench.soak.requests import ENGINE

from smg.sim.engine import SimEngine

REFUSAL = wire.answer(b"{}", "503 Service Unavailable")


def client_of(port: int, monkeypatch, *, kind: str = "plain", leaves: str = "") -> Client:
    monkeypatch.setattr(clients, "_KINDS", {kind: 1})
    monkeypatch.setattr(clients, "_LEAVING", {leaves: 1})
    return Client(port, random.Random(3), itertools.count(), [])


async def outcomes(client: Client, count: int) -> list[Account]:
    for _ in range(count):
        await client._one()
    await gone(client)
    return client.accounts


async def gone(client: Client) -> None:
    """End a client's connection, and let the loop see the end of all that it had."""
    if client.connection is not None:
        client.connection.transport.abort()
    await asyncio.sleep(0.01)


@asynccontextmanager
async def listener(answer: bytes):
    """Answers each request with these bytes, or with none hangs up."""
    serving = []

    async def serve(reader, writer):
        serving.append(asyncio.current_task())
        try:
            while True:
                head = await reader.readuntil(wire.HEAD_END)
                await reader.readexactly(wire.content_length(head) or 0)
                writer.write(answer)
                if not answer:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.gather(*serving)


@pytest.mark.parametrize("kind", ["plain", "stream", "large", "upload"])
async def test_what_an_engine_answers_is_whole(kind: str, monkeypatch) -> None:
    async with SimEngine(ENGINE) as engine:
        accounts = await outcomes(client_of(engine.port, monkeypatch, kind=kind), 2)
    assert [account.outcome for account in accounts] == [WHOLE, WHOLE]
    assert all(account.sent and account.first_byte_at for account in accounts)


@pytest.mark.parametrize(("leaves", "sent"), [("head", False), ("upload", False), ("waiting", True), ("answer", True)])
async def test_a_client_leaves_where_it_is_to(leaves: str, sent: bool, monkeypatch) -> None:
    async with SimEngine(ENGINE) as engine:
        client = client_of(engine.port, monkeypatch, kind="long" if leaves == "waiting" else "stream", leaves=leaves)
        [account] = await outcomes(client, 1)
        executed = engine.machine.requests
    assert (account.outcome, account.sent) == (LEFT, sent)
    assert account.left_at
    assert bool(account.first_byte_at) is (leaves == "answer")
    assert executed == sent


async def test_an_answer_that_comes_twice_is_wrong(monkeypatch) -> None:
    async with listener(REFUSAL * 2) as port:
        accounts = await outcomes(client_of(port, monkeypatch), 2)
    assert [account.outcome for account in accounts] == [WRONG, REFUSED]


async def test_a_connection_that_ends_without_an_answer_leaves_its_request_unanswered(monkeypatch) -> None:
    async with listener(b"") as port:
        accounts = await outcomes(client_of(port, monkeypatch), 2)
    assert [account.outcome for account in accounts] == [UNANSWERED, UNANSWERED]


async def test_a_connection_is_kept_for_the_next_request_unless_the_answer_says_otherwise(monkeypatch) -> None:
    async with listener(REFUSAL) as port:
        client = client_of(port, monkeypatch)
        await client._one()
        kept = client.connection
        await client._one()
        assert client.connection is kept is not None
        await gone(client)
    async with listener(REFUSAL.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")) as port:
        client = client_of(port, monkeypatch)
        await client._one()
        assert client.connection is None
        await gone(client)
