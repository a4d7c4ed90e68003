"""The clients of the soak: `python -m bench.soak.clients`.

Each has one connection and sends one request after the other over it, as long as it lasts. Some requests are given up:
in their own head, in the middle of the upload, while they wait, or while the answer comes. Whatever arrives is
checked, also what arrives unasked. The account of all requests goes to standard output as one JSON line.
"""

import argparse
import asyncio
import itertools
import json
import random
import time
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import uvloop

from bench import wire
from bench.soak.accounts import LEFT, UNANSWERED, WRONG, Account, rows
from bench.soak.requests import Author, Request, judge

# Longer than the gateway lets any request take, retries and queue included.
PATIENCE_SECS = 45.0
_PIECE_BYTES = 32_768
_KINDS = {"plain": 44, "stream": 38, "large": 5, "long": 3, "upload": 10}
# Where a request is given up: in its head, during its upload, before its answer, during its answer.
_STAYS, _IN_HEAD, _IN_UPLOAD, _WAITING, _IN_ANSWER = "", "head", "upload", "waiting", "answer"
_LEAVING = {_STAYS: 80, _IN_HEAD: 2, _IN_UPLOAD: 3, _WAITING: 7, _IN_ANSWER: 8}
_LONGEST_WAIT_SECS = 0.15


class _Answer(NamedTuple):
    status: int
    body: bytes
    closes: bool


class Connection(asyncio.Protocol):
    """Bytes as they come; `account` is told when the first one does."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.lost = False
        self.account: Account | None = None
        self._news = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.account is not None and not self.account.first_byte_at:
            self.account.first_byte_at = time.monotonic()
        self.buffer += data
        self._news.set()

    def connection_lost(self, _exc: Exception | None) -> None:
        self.lost = True
        self._news.set()

    async def more(self) -> None:
        """Wait for more bytes. Raises EOFError when there will be none."""
        if self.lost:
            raise EOFError
        self._news.clear()
        await self._news.wait()

    async def until(self, mark: bytes) -> bytes:
        """Take what comes up to and with a mark."""
        while (at := self.buffer.find(mark)) < 0:
            await self.more()
        return self.take(at + len(mark))

    async def exactly(self, size: int) -> bytes:
        while len(self.buffer) < size:
            await self.more()
        return self.take(size)

    def take(self, size: int) -> bytes:
        taken = bytes(self.buffer[:size])
        del self.buffer[:size]
        return taken


@dataclass(slots=True)
class Client:
    """One user of the gateway."""

    port: int
    chance: random.Random
    numbers: "itertools.count[int]"
    accounts: list[Account]
    author: Author = field(init=False)
    connection: Connection | None = None
    last: Account | None = None

    def __post_init__(self) -> None:
        self.author = Author(self.chance, self.port)

    async def run(self, until: float) -> None:
        while time.monotonic() < until:
            await asyncio.sleep(self.chance.expovariate(1 / 0.05))
            await self._one()
        if self.connection is not None:
            self.connection.transport.close()

    async def _one(self) -> None:
        """Send one request, and see what comes of it."""
        kind = _pick(_KINDS, self.chance)
        request = self.author.write(next(self.numbers), kind)
        leaves = _pick(_LEAVING, self.chance)
        if kind == "long":  # nobody waits for its end
            leaves = _IN_ANSWER if request.stream else _WAITING
        account = Account(request.rid, request.single, leaves)
        self.accounts.append(account)
        connection = await self._connected()
        connection.account = self.last = account
        try:
            async with asyncio.timeout(PATIENCE_SECS):
                if await self._send(connection, request, account):
                    answer = await self._receive(connection, account)
                    if answer is not None:
                        account.status = answer.status
                        account.outcome = judge(request, answer.status, answer.body)
                        if answer.closes or not account.sent:
                            self._drop(connection)
        except (EOFError, TimeoutError):
            account.outcome = UNANSWERED
            self._drop(connection)

    async def _connected(self) -> Connection:
        """The connection of the last request if it still can be used. What came on it unasked is wrong."""
        connection = self.connection
        if connection is not None and not connection.lost:
            if not connection.buffer:
                return connection
            assert self.last is not None
            self.last.outcome = WRONG  # answered twice
            self._drop(connection)
        loop = asyncio.get_running_loop()
        _, self.connection = await loop.create_connection(Connection, "127.0.0.1", self.port)
        return self.connection

    async def _send(self, connection: Connection, request: Request, account: Account) -> bool:
        """Send a request, or the part of it that its account says; False when the client has left."""
        transport = connection.transport
        if account.leaves == _IN_HEAD:
            transport.write(request.head[: len(request.head) // 2])
            return await self._leave(connection, account, self.chance.uniform(0, 0.02))
        if account.leaves == _IN_UPLOAD:
            transport.write(request.head + request.body[: len(request.body) // 2])
            return await self._leave(connection, account, self.chance.uniform(0, 0.1))
        data = request.head + request.body
        for at in range(0, len(data), _PIECE_BYTES):
            if connection.buffer or connection.lost:
                return True  # answered early: the gateway does not want the rest
            transport.write(data[at : at + _PIECE_BYTES])
            if at + _PIECE_BYTES < len(data):
                await asyncio.sleep(0.002)
        account.sent = True
        if account.leaves == _WAITING:
            return await self._leave(connection, account, self.chance.uniform(0, _LONGEST_WAIT_SECS))
        return True

    async def _receive(self, connection: Connection, account: Account) -> _Answer | None:
        """A whole answer; None when the client left in the middle of it."""
        head = await connection.until(wire.HEAD_END)
        if account.leaves == _IN_ANSWER:
            await self._leave(connection, account, self.chance.uniform(0, 0.03))
            return None
        status, lower = int(head.split(b" ", 2)[1]), head.lower()
        length = wire.content_length(lower[: -len(wire.HEAD_END)])
        if length is not None:
            return _Answer(status, await connection.exactly(length), b"connection: close" in lower)
        body = bytearray()
        while size := int(await connection.until(b"\r\n"), 16):
            body += await connection.exactly(size)
            await connection.exactly(2)
        await connection.exactly(2)
        return _Answer(status, bytes(body), b"connection: close" in lower)

    async def _leave(self, connection: Connection, account: Account, after_secs: float) -> bool:
        await asyncio.sleep(after_secs)
        account.left_at = time.monotonic()
        account.outcome = LEFT
        self._drop(connection)
        return False

    def _drop(self, connection: Connection) -> None:
        """End a connection, politely or not."""
        connection.account = None
        if self.chance.random() < 0.5:
            connection.transport.abort()
        else:
            connection.transport.close()
        self.connection = None


def _pick(weights: dict[str, int], chance: random.Random) -> str:
    return chance.choices([*weights], [*weights.values()])[0]


async def run(args: argparse.Namespace) -> list[Account]:
    numbers, accounts = itertools.count(), list[Account]()
    until = time.monotonic() + args.seconds
    async with asyncio.TaskGroup() as group:
        for seed in range(args.clients):
            client = Client(args.port, random.Random(args.seed * 1000 + seed), numbers, accounts)
            group.create_task(client.run(until))
    return accounts


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.soak.clients")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--clients", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, default=0)
    print(json.dumps(rows(uvloop.run(run(parser.parse_args())))))


if __name__ == "__main__":
    main()
