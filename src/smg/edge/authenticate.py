"""Who may call: the shared key on serving and admin routes."""

from __future__ import annotations

from collections.abc import Callable

from smg.auth.keys import SharedKey
from smg.errors import Unauthorized
from smg.net.exchange import Exchange


def shared_key_filter(key: SharedKey) -> Callable[[Exchange], None]:
    """A filter that lets only holders of the key pass."""

    def authenticate(exchange: Exchange) -> None:
        if not key.opens(exchange.headers.get(b"authorization")):
            raise Unauthorized

    return authenticate
