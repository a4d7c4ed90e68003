"""Whose request it is, for limits and priorities: a key's tenant, else what a trusted proxy says, else the address.

The tenant's key says where its name comes from: `auth:` a key of ours, `header:` the trusted header, `ip:` the client's
address. The address is that of the connection; what headers say of it can be made up by anybody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from smg.config.tenant_rules import ANONYMOUS
from smg.net.exchange import Exchange

LONGEST_NAME_BYTES: Final = 256
"""A header with more than that names nobody: tenants are remembered, and their names with them."""


def tenant_filter(trusted_header: bytes | None) -> Callable[[Exchange], None]:
    """A filter that notes the tenant of each exchange that no key has identified.

    `trusted_header` is the name, in lower case, of the header in which a proxy that is trusted names the tenant.
    """

    def identify(exchange: Exchange) -> None:
        if exchange.tenant:
            return
        if trusted_header is not None:
            name = _name(exchange.headers.get(trusted_header))
            if name is not None:
                exchange.tenant = f"header:{name}"
                return
        peer = exchange.peer
        exchange.tenant = f"ip:{peer}" if peer else ANONYMOUS

    return identify


def _name(value: bytes | None) -> str | None:
    """The name in a header value: trimmed, not empty, not too long, in UTF-8; else None."""
    if value is None or len(value) > LONGEST_NAME_BYTES:
        return None
    try:
        return value.decode().strip() or None
    except UnicodeDecodeError:
        return None
