"""Many requests to pairs that go well, badly, and nowhere: in the end nothing is left of them."""

import asyncio
import gc
import random
from collections import Counter

import pytest

from smg.net.reply import Reply
from smg.serving.upstreams.rendezvous import Filling
from support.bodies import CHAT, GENERATE, chat
from support.client import LEAVING
from support.raw_engine import answers, breaks_its_chunks, breaks_off, closes, resets, streams, talks_nonsense
from support.waiting import until

REQUESTS = 600
CLIENTS = 12
# What an engine meets on a connection that the gateway has ended, depending on the moment.
GONE = (ConnectionError, RuntimeError, AttributeError)


def whims(seed):
    """A behaviour that is another one with every call."""
    rng = random.Random(seed)

    async def slowly(call):
        await call.begin_stream()
        await call.event("one")
        await asyncio.sleep(rng.random() / 100)
        await call.event("two")
        await call.end_stream()

    async def dies_in_the_stream(call):
        await call.begin_stream()
        await call.event("half")
        await asyncio.sleep(rng.random() / 100)
        call.reset()

    async def hesitates(call):
        await asyncio.sleep(rng.random() / 50)
        await call.answer()

    ways = [answers(), streams("one", "two"), slowly, hesitates] * 4
    ways += [answers(400), answers(503), answers(500), resets, closes, breaks_off]
    ways += [breaks_its_chunks, talks_nonsense, dies_in_the_stream]

    async def behave(call):
        try:
            await rng.choice(ways)(call)
        except GONE:
            call.finish()

    return behave


class Client:
    """Asks in every way there is, and notes what came of it."""

    def __init__(self, gateway, seed):
        self.gateway = gateway
        self.rng = random.Random(seed)
        self.seen = Counter()

    async def run(self, requests):
        for _ in range(requests):
            try:
                outcome = await self.rng.choice([self.plain, self.stream, self.native, self.leave, self.leave])()
            except (asyncio.IncompleteReadError, ConnectionError):
                outcome = "cut"
            self.seen[outcome] += 1

    async def plain(self):
        return (await self.gateway.chat(chat(n=self.rng.choice([None, 2])))).status

    async def stream(self):
        return (await self.gateway.chat(chat(stream=True))).status

    async def native(self):
        return (await self.gateway.post(GENERATE, {"text": "hi", "return_logprob": self.rng.random() < 0.5})).status

    async def leave(self):
        client = await self.gateway.send("POST", CHAT, chat(stream=self.rng.random() < 0.5))
        await asyncio.sleep(self.rng.random() / 50)
        self.rng.choice(list(LEAVING.values()))(client)
        return "left"


def exchanges():
    """What the process holds of exchanges; a failed test, for one, keeps its own."""
    gc.collect()
    return Counter(type(one).__name__ for one in gc.get_objects() if type(one) in {Reply, Filling})


@pytest.mark.parametrize("kind", ["pairs", "transfers"])
async def test_nothing_is_left_of_a_crowd(stage, request, kind):
    before = exchanges()
    make = request.getfixturevalue(kind)
    prefills = [await stage.raw_engine(whims(seed)) for seed in (1, 2)]
    decodes = [await stage.raw_engine(whims(seed)) for seed in (3, 4)]
    gateway = await make(
        prefills,
        decodes,
        retry_max_retries=2,
        cb_timeout_duration_secs=0.02,
        upstream_pool_idle_timeout_secs=0.5,
    )
    crowd = [Client(gateway, seed) for seed in range(CLIENTS)]
    async with asyncio.TaskGroup() as group:
        for one in crowd:
            group.create_task(one.run(REQUESTS // CLIENTS))
    seen = sum((one.seen for one in crowd), Counter())
    assert sum(seen.values()) == REQUESTS
    assert seen[200] > REQUESTS / 10
    assert {502, 500, "left"} & set(seen)
    await gateway.left()
    assert gateway.loads == [0, 0, 0, 0]
    assert not gateway.gateway._pairs._legs._tasks
    upstream = gateway.gateway.upstream
    await until(lambda: not sum(map(len, upstream.pools)), "idle connections to end")
    assert not exchanges() - before
    assert "failed inside the gateway" not in gateway.log()
