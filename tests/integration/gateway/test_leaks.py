"""Thousands of requests that go well, badly, and nowhere: in the end nothing is left of them."""

import asyncio
import gc
import random
from collections import Counter
from pathlib import Path

from smg.net.exchange import Exchange
from smg.net.http1.client import UpstreamConnection
from smg.net.http1.connection import ServerConnection
from smg.net.reply import Reply
from smg.sim.faults import Fault
from support.bodies import CHAT, COMPLETIONS, MODEL, chat, padded_chat
from support.client import LEAVING
from support.raw_engine import answers, breaks_its_chunks, breaks_off, closes, resets, streams, talks_nonsense
from support.waiting import until, within

REQUESTS = 3000
CLIENTS = 24

FAULTS = [
    Fault(CHAT, "error", status=503, probability=0.05),
    Fault(CHAT, "error", status=500, probability=0.05),
    Fault("*", "reset", probability=0.05),
    Fault(CHAT, "reset", after_events=2, probability=0.1),
    Fault(CHAT, "truncate", after_events=2, probability=0.05),
    Fault(CHAT, "garbage", probability=0.05),
    Fault(CHAT, "slow_body", ms=1, probability=0.05),
    Fault(CHAT, "latency", ms=2, probability=0.2),
    Fault(CHAT, "hang", count=10, probability=0.05),
]


class Mischief:
    """Asks a gateway in every way there is, and notes what came of it."""

    def __init__(self, gateway, seed):
        self.gateway = gateway
        self.rng = random.Random(seed)
        self.seen = Counter()
        self.ways = [
            self.plain,
            self.plain,
            self.stream,
            self.stream,
            self.leave_early,
            self.leave_in_the_stream,
            self.leave_in_the_upload,
            self.refused,
            self.in_chunks,
            self.on_one_connection,
            self.pipelined,
        ]

    async def run(self, requests):
        for _ in range(requests):
            way = self.rng.choice(self.ways)
            try:
                outcome = await way()
            except (asyncio.IncompleteReadError, ConnectionError):
                outcome = "cut"
            self.seen[f"{way.__name__} {outcome}"] += 1

    def headers(self):
        return [f"x-smg-routing-key: {self.rng.randrange(20)}"] if self.rng.random() < 0.5 else []

    def leave(self, client):
        self.rng.choice(list(LEAVING.values()))(client)

    async def plain(self):
        return (await self.gateway.chat(chat(str(self.rng.random()), max_tokens=3), self.headers())).status

    async def stream(self):
        answer = await self.gateway.chat(chat(max_tokens=5, stream=True), self.headers())
        return answer.status, b"stream_error" in answer.body

    async def leave_early(self):
        client = await self.gateway.connect()
        await client.send("POST", CHAT, chat(max_tokens=3, stream=self.rng.random() < 0.5), self.headers())
        for _ in range(self.rng.randrange(4)):
            await asyncio.sleep(0)
        self.leave(client)
        return "left"

    async def leave_in_the_stream(self):
        client = await self.gateway.connect()
        await client.send("POST", CHAT, chat(max_tokens=50, stream=True), self.headers())
        head = await client.head()
        if head.headers.get("transfer-encoding") == "chunked":
            await client.chunk()
        self.leave(client)
        return head.status

    async def leave_in_the_upload(self):
        body = padded_chat(self.rng.choice([500, 50_000, 400_000]))
        client = await self.gateway.connect()
        await client.send("POST", CHAT, body[: self.rng.randrange(len(body))], self.headers(), length=len(body))
        self.leave(client)
        return "left"

    async def refused(self):
        body = self.rng.choice([b"{", chat(temperature=9), chat(model="nobody"), padded_chat(600_000)])
        return (await self.gateway.chat(body, self.headers())).status

    async def in_chunks(self):
        client = await self.gateway.connect()
        await client.send("POST", COMPLETIONS, None, ["transfer-encoding: chunked", "content-type: application/json"])
        body = b'{"model":"%b","prompt":"x","max_tokens":2}' % MODEL.encode()
        await client.write(b"%x\r\n%b\r\n%b\r\n\r\n" % (len(body), body, self.rng.choice([b"0", b"0", b"nonsense"])))
        return (await client.answer()).status

    async def on_one_connection(self):
        client = await self.gateway.connect()
        for _ in range(3):
            await client.send("POST", CHAT, chat(max_tokens=2, stream=self.rng.random() < 0.5))
            await client.answer()
        return "three"

    async def pipelined(self):
        client = await self.gateway.connect()
        for _ in range(3):
            await client.send("POST", CHAT, chat(max_tokens=2))
        await client.answer()
        self.leave(client)
        return "left"


def alive(*kinds):
    """How many objects of these kinds there are."""
    gc.collect()
    return Counter(type(thing).__name__ for thing in gc.get_objects() if isinstance(thing, kinds))


def open_sockets():
    """The sockets of this process, where that can be seen."""
    folder = Path("/proc/self/fd")
    return {link for entry in folder.glob("*") if (link := _target(entry)).startswith("socket:")}


def _target(entry):
    try:
        return str(entry.readlink())
    except OSError:
        return ""  # gone while we looked


async def test_nothing_is_left_of_thousands_of_requests(stage):
    kinds = (Exchange, Reply, UpstreamConnection, ServerConnection)
    sockets = open_sockets()
    before = alive(*kinds)
    odd = [answers(), resets, closes, breaks_off, breaks_its_chunks, talks_nonsense, answers(503), streams("a", "b")]
    engines = [
        await stage.engine(*FAULTS, tokens_per_second=5000, seed=1),
        await stage.engine(*FAULTS, tokens_per_second=5000, seed=2),
        await stage.raw_engine(*odd * 40, answers()),
    ]
    gateway = await stage.gateway(
        *engines,
        max_concurrent_requests=8,
        queue_size=8,
        request_timeout_secs=0.4,
        max_payload_size=500_000,
        max_buffered_request_bytes=20_000,
        cb_failure_threshold=5,
        cb_timeout_duration_secs=0.02,
        health_check_interval_secs=0.05,
        routing_key_override=True,
        upstream_pool_idle_timeout_secs=0.5,
    )
    crowd = [Mischief(gateway, seed) for seed in range(CLIENTS)]
    async with asyncio.TaskGroup() as group:
        for one in crowd:
            group.create_task(one.run(REQUESTS // CLIENTS))
    seen = sum((one.seen for one in crowd), Counter())
    assert sum(seen.values()) == REQUESTS
    assert {"plain 200", "stream (200, False)", "stream (200, True)", "refused 413", "refused 404"} <= set(seen)
    assert sum(count for outcome, count in seen.items() if outcome.endswith(" 429")) > 0

    await gateway.left()
    assert gateway.loads == [0, 0, 0]
    assert gateway.permits == (0, 0)
    inside = gateway.gateway
    assert inside.upstream._retired == []
    await until(lambda: not len(inside.server.connections), "the end of the clients' connections")
    assert len(inside.server.held._members) == 0
    await until(lambda: not sum(map(len, inside.upstream.pools)), "idle connections to end")
    scrape = await gateway.scrape()
    assert scrape.value("smg_http_connections_active") == 0
    assert scrape.value("smg_worker_routing_keys_active") == 0

    await within(gateway.close())
    for engine in engines:
        await engine.stop()
    assert alive(*kinds) == before
    await until(lambda: open_sockets() == sockets, "the end of all sockets")
    assert "request failed inside the gateway" not in gateway.log()
