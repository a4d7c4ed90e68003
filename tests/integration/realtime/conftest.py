"""A gateway in front of engines that speak WebSocket as a test says, and sessions through it."""

import pytest

from support.stage import Stage
from support.waiting import until
from support.websocket import CREDENTIAL, PATH, TARGET, UPGRADE, grant


class Studio(Stage):
    """A stage with sessions."""

    def __init__(self, stack):
        super().__init__(stack)
        self.speakers = []
        self.gateways = []

    async def gateway(self, *engines, **settings):
        self.gateways.append(await super().gateway(*engines, **settings))
        return self.gateways[-1]

    async def come_down(self):
        """End what a test has left open, and see it come back."""
        for call in [call for speaker in self.speakers for call in speaker.calls]:
            call.close()
        for gateway in self.gateways:
            await gateway.left()
            await until(lambda tunnels=gateway.gateway.tunnels: not len(tunnels), "the end of all tunnels")

    async def speaker(self, **options):
        """An engine of the realtime kind. Without a script, each call of it waits for the test."""
        speaker = await self.raw_engine(**{"gets": PATH, **options})
        self.speakers.append(speaker)
        return speaker

    async def speaking(self, *engines, labels=None, worker=None, **settings):
        """A gateway whose workers bear the label."""
        gateway = await self.gateway(**settings)
        for engine in engines:
            spec = {"url": engine.url, "labels": labels or {"realtime": "true"}, **(worker or {})}
            assert (await gateway.post("/workers", spec, _admin(settings))).status == 202
        await gateway.registered(len(engines))
        return gateway

    async def ask(self, gateway, *headers, target=TARGET, **options):
        """A client that asks for a session; its answer is left to the test."""
        client = await gateway.connect(**options)
        await client.send("GET", target, None, [*UPGRADE, CREDENTIAL, *headers])
        return client

    async def session(self, gateway, speaker, *headers, early=b"", **options):
        """Both ends of a session: the client, and the call at the engine."""
        client = await self.ask(gateway, *headers, **options)
        call = await speaker.call()
        await grant(call, early=early)
        answer = await switched(client)
        assert answer.startswith(b"HTTP/1.1 101 ")
        return client, call


def _admin(settings):
    return [f"authorization: Bearer {settings['api_key']}"] if "api_key" in settings else []


async def switched(client):
    """The head of an answer, interim or not."""
    return await client.reader.readuntil(b"\r\n\r\n")


@pytest.fixture
def stage_type():
    """Stages that end sessions, and see that no tunnel is left."""
    return Studio


@pytest.fixture
async def stage(stage):
    """A stage that comes down with the test."""
    yield stage
    await stage.come_down()
