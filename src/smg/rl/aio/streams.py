"""One exchange over asyncio streams, within one deadline for all of it."""

from __future__ import annotations

import asyncio

from smg.rl.endpoint import Endpoint
from smg.rl.http1 import Reply, ReplyReader
from smg.rl.sockets import keep_alive, late, tls_context

_READ_BYTES = 1 << 18


async def exchange(endpoint: Endpoint, request: bytes, timeout_secs: float, *, bodiless: bool) -> Reply:
    """Send a request and read its reply. Raises OSError; its subclass TimeoutError when it took too long.

    However it ends, the connection is gone when it returns: a caller who is cancelled leaves no request behind.
    """
    try:
        async with asyncio.timeout(timeout_secs) as bound:
            return await _converse(endpoint, request, ReplyReader(bodiless=bodiless))
    except TimeoutError:
        if bound.expired():
            raise late(timeout_secs) from None
        raise


async def _converse(endpoint: Endpoint, request: bytes, reader: ReplyReader) -> Reply:
    context = tls_context() if endpoint.tls else None
    stream, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=context)
    try:
        keep_alive(writer.get_extra_info("socket"))
        # Nothing waits for the request to leave: who refuses a body may answer before all of it was sent.
        writer.write(request)
        while reader.reply is None:
            if data := await stream.read(_READ_BYTES):
                reader.feed(data)
            else:
                reader.finish()
    finally:
        writer.transport.abort()
    assert reader.reply is not None
    return reader.reply
