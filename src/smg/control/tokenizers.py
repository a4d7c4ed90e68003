"""GET /v1/tokenizers: the tokenizers that this gateway has loaded.

Workers that speak HTTP tokenize by themselves, so as long as there are no others the list is empty.
"""

from __future__ import annotations

from smg.net.exchange import Exchange
from smg.net.routes import Route

PATH = "/v1/tokenizers"
_NONE = b'{"tokenizers":[]}'


def routes() -> list[Route]:
    """The row of the route table."""

    def handler(exchange: Exchange) -> None:
        exchange.answer(200, _NONE)

    return [Route("GET", PATH, handler, group="admin")]
