"""A stage for each test, on the event loop that the gateway runs on."""

import asyncio
from contextlib import AsyncExitStack

import pytest
import uvloop

from support.calm import calm_loop
from support.stage import Stage


def pytest_asyncio_loop_factories(config, item):
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def stage():
    """Engines and gateways; at the end everything is at rest and nothing went wrong unseen."""
    async with calm_loop(), AsyncExitStack() as stack:
        yield Stage(stack)


@pytest.fixture
def turn():
    """Let everything that is ready run."""

    async def turn_loop(times=10):
        for _ in range(times):
            await asyncio.sleep(0)

    return turn_loop
