"""A stage for each test, and the words of a trainer that works through the control plane."""

from urllib.parse import quote

import pytest

from support.stage import Stage

ROOT = "/v1/rl"


class ControlStage(Stage):
    """A stage whose gateways have the control plane on."""

    async def plane(self, *engines, **settings):
        return Trainer(await self.gateway(*engines, enable_rl=True, **settings))


@pytest.fixture
def stage_type():
    return ControlStage


class Trainer:
    """Somebody who operates engines through a gateway."""

    def __init__(self, gateway):
        self.gateway = gateway

    def one(self, engine, path):
        """The target of a call to one engine."""
        return f"{ROOT}/workers/{self.gateway.worker(engine).id}/engine/{path}"

    @staticmethod
    def every(path, selector):
        """The target of a fan-out."""
        return f"{ROOT}/engine/{path}?selector={quote(selector, safe='')}"

    async def rows(self):
        """The discovery rows by address."""
        answer = await self.gateway.get(f"{ROOT}/workers")
        return {row["base_url"]: row for row in answer.json["workers"]}

    async def call(self, engine, path, body=None, *, method="POST", headers=()):
        return await self.gateway.ask(method, self.one(engine, path), body, headers)

    async def fanout(self, path, selector, body=None, *, method="POST", headers=()):
        return await self.gateway.ask(method, self.every(path, selector), body, headers)
