"""The request id of every exchange: the caller's, or one of ours."""

from __future__ import annotations

from collections.abc import Callable

from smg.net.exchange import Exchange
from smg.protocol.request_ids import RequestIds

DEFAULT_PREFIX = "req-"


def request_id_filter(ids: RequestIds) -> Callable[[Exchange], None]:
    """A filter that notes each exchange's request id."""

    def note(exchange: Exchange) -> None:
        route = exchange.route
        prefix = route.id_prefix if route is not None else DEFAULT_PREFIX
        exchange.request_id = ids.of(exchange.headers, prefix)

    return note
