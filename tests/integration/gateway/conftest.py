"""What the tests of a running gateway need beside their stage."""

import asyncio

import pytest


@pytest.fixture
def turn():
    """Let everything that is ready run."""

    async def turn_loop(times=10):
        for _ in range(times):
            await asyncio.sleep(0)

    return turn_loop
