"""A gateway in front of providers: workers that are somebody else's."""

import pytest

from support.bodies import MODEL
from support.raw_engine import answers
from support.stage import Stage

ANSWERS = (answers(),)


class Market(Stage):
    """A stage with providers."""

    async def provider(self, name=None, *, base="", gateway=None, spec=None, script=ANSWERS, key=None, **settings):
        """A gateway with one provider, or one more; returns both. Without a script its calls wait for the test."""
        engine = await self.raw_engine(*(script or ()))
        if gateway is None:
            gateway = await self.gateway(**settings)
        body = {"url": engine.url + base, "runtime_type": "external", "models": [{"id": MODEL}], **(spec or {})}
        if name is not None:
            body["provider"] = name
        before = len(gateway.workers)
        key = key or settings.get("api_key")
        answer = await gateway.post("/workers", body, [f"authorization: Bearer {key}"] if key else [])
        assert answer.status == 202, answer.body
        await gateway.registered(before + 1)
        return gateway, engine


@pytest.fixture
def stage_type():
    """Stages with providers."""
    return Market
