"""Calls that a test waits for."""

import asyncio
from functools import partial

from smg.errors import UpstreamError
from smg.net.calls import Calls


async def capture(address, request, limits, *, calls=None, key="worker", **options):
    """What comes of one call: the answer, or an UpstreamError raised. Cancelling cancels the call."""
    ended = asyncio.get_running_loop().create_future()
    call = (calls or Calls()).begin(key, address, request, limits, partial(_settle, ended), **options)
    try:
        result = await ended
    finally:
        call.cancel()
    if isinstance(result, UpstreamError):
        raise result
    return result


def _settle(future, result):
    assert not future.done(), "a call ends once"
    future.set_result(result)
