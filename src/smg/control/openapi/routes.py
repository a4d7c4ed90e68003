"""The route itself. The document is made when it is first asked for, away from the loop, and kept."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from smg.net.exchange import Exchange
from smg.net.routes import Route
from smg.protocol.openapi.operation import Access, Described

PATH: Final = "/openapi.json"


def routes(others: Sequence[Route], access: Access) -> list[Route]:
    """The row of the route table. `others` are the rest of it."""
    described = [Described(route.method, route.path, route.group, route.errors) for route in others if route.described]
    described.append(Described("GET", PATH, "public"))
    making = asyncio.Lock()
    made: list[bytes] = []

    async def handler(exchange: Exchange) -> None:
        async with making:
            if not made:
                made.append(await asyncio.to_thread(document, described, access))
        exchange.answer(200, made[0])

    return [Route("GET", PATH, handler)]


def document(routes: Sequence[Described], access: Access) -> bytes:
    """The description of these routes. Raises LookupError that names those of which there is none."""
    from smg.control.openapi.operations import OPERATIONS, OVERLAYS  # noqa: PLC0415  most gateways are never asked
    from smg.protocol.openapi.document import render  # noqa: PLC0415  the same
    from smg.protocol.openapi.inference import OPERATIONS as INFERENCE  # noqa: PLC0415  the same

    return render(routes, OPERATIONS | INFERENCE, access, OVERLAYS)
