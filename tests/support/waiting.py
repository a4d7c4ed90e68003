"""Waiting for what happens in its own time. Every wait has a bound that a busy machine keeps easily.

A test that fails may wait twice, in itself and while its stage comes down: both fit into the time a test has.
"""

import asyncio
import time

WAIT_SECS = 15.0
PROCESS_WAIT_SECS = 30.0
_LOOK_SECS = 0.005


async def until(condition, what="the condition"):
    """Let the loop run until a condition holds, and return what it returned."""
    deadline = time.monotonic() + WAIT_SECS
    while not (result := condition()):
        assert time.monotonic() < deadline, f"{what} did not come true"
        await asyncio.sleep(_LOOK_SECS)
    return result


async def within(awaitable):
    """Await something that must not take for ever."""
    async with asyncio.timeout(WAIT_SECS):
        return await awaitable


def eventually(attempt, what="the attempt"):
    """Call until the result is true; errors of the network count as false. For tests that drive processes."""
    deadline = time.monotonic() + PROCESS_WAIT_SECS
    while True:
        try:
            result, reason = attempt(), ""
        except OSError as error:
            result, reason = None, f": {error}"
        if result:
            return result
        assert time.monotonic() < deadline, f"{what} did not succeed{reason}"
        time.sleep(10 * _LOOK_SECS)
