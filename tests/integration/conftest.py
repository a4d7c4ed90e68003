"""What integration tests share: the event loop that the gateway runs on, and a stage for each test on it."""

from contextlib import AsyncExitStack

import pytest
import uvloop

from support.calm import calm_loop
from support.stage import Stage


def pytest_asyncio_loop_factories(config, item):
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def stage_type():
    """What kind of stage a folder has."""
    return Stage


@pytest.fixture
async def stage(stage_type):
    """Engines and gateways; at the end everything is at rest and nothing went wrong unseen."""
    async with calm_loop(), AsyncExitStack() as stack:
        yield stage_type(stack)
