"""Who may call: any key of the ring on serving routes, the shared key on admin routes.

Where tenants have keys and there is no shared one, nothing opens the admin routes.
"""

from __future__ import annotations

from collections.abc import Callable

from smg.auth.keys import KeyRing
from smg.errors import Unauthorized
from smg.net.exchange import Exchange


def serving_filter(ring: KeyRing) -> Callable[[Exchange], None]:
    """A filter that lets only holders of a key pass, and notes whose it is."""
    tenant_of = ring.tenant_of

    def authenticate(exchange: Exchange) -> None:
        tenant = tenant_of(exchange.headers.get(b"authorization"))
        if tenant is None:
            raise Unauthorized
        exchange.tenant = tenant

    return authenticate


def admin_filter(ring: KeyRing) -> Callable[[Exchange], None]:
    """A filter that lets only holders of the shared key pass."""

    def authenticate(exchange: Exchange) -> None:
        if not ring.administers(exchange.headers.get(b"authorization")):
            raise Unauthorized

    return authenticate
