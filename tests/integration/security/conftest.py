"""A stage for each test, on the event loop that the gateway runs on, and an issuer of tokens."""

from contextlib import AsyncExitStack

import pytest
import uvloop

from support.calm import calm_loop
from support.issuer import issuer_server
from support.stage import Stage


def pytest_asyncio_loop_factories(config, item):
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def stage():
    """Engines and gateways; at the end everything is at rest and nothing went wrong unseen."""
    async with calm_loop(), AsyncExitStack() as stack:
        yield Stage(stack)


@pytest.fixture
async def issuer(stage):
    """An issuer that listens for as long as the stage stands."""
    return await stage.stack.enter_async_context(issuer_server())
