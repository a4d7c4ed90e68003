"""The payload limit, for bodies that announce their length: refused before a byte of them is asked for.

Bodies in chunks are cut off by whoever reads them, at the same limit.
"""

from __future__ import annotations

from smg.net.body import too_large
from smg.net.exchange import Exchange


def body_limit(exchange: Exchange) -> None:
    """Refuse a body that announces more than the limit."""
    body = exchange.body
    if body.length is not None and body.length > body.limit_bytes:
        raise too_large(body.limit_bytes)
