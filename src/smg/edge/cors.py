"""Which web pages may call the gateway from a browser: those of the origins that are allowed, and by default none.

Without an answer that names its origin, a browser keeps what a page asked for from it. Credentials of the browser
(cookies) are never asked for: callers authenticate by a header of their own.
"""

from __future__ import annotations

from collections.abc import Collection

from smg.net.exchange import Exchange

ANY = "*"
MAX_AGE_SECS = 3600
_PREFLIGHT = (
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE, OPTIONS"),
    (
        b"access-control-allow-headers",
        b"content-type, authorization, x-request-id, x-correlation-id, x-smg-routing-key, x-smg-priority",
    ),
    (b"access-control-max-age", b"%d" % MAX_AGE_SECS),
)
_EXPOSED = (
    b"access-control-expose-headers: x-request-id, x-smg-error-code, x-smg-preempted, x-smg-routed-worker-id, "
    b"retry-after\r\n"
)
_VARY = b"vary: origin\r\n"


class Cors:
    """The headers of answers to pages of the allowed origins, given in lower case; `*` stands for any."""

    def __init__(self, origins: Collection[str]) -> None:
        self._any = ANY in origins
        self._origins = frozenset(origin.encode() for origin in origins)

    def mark(self, exchange: Exchange) -> None:
        """Let whatever answers an exchange tell the browser that the page may see it."""
        origin = exchange.headers.get(b"origin")
        if not self._any:
            exchange.marks = _VARY
        if origin is not None and self._allows(origin):
            allowed = b"*" if self._any else origin
            exchange.marks += b"access-control-allow-origin: %b\r\n%b" % (allowed, _EXPOSED)

    def preflight(self, exchange: Exchange) -> bool:
        """Answer a browser that asks before it sends a page's request; False if this is not such a question."""
        headers = exchange.headers
        origin = headers.get(b"origin")
        asks = exchange.method == "OPTIONS" and b"access-control-request-method" in headers
        if not asks or origin is None or not self._allows(origin):
            return False
        exchange.answer(204, headers=_PREFLIGHT)
        return True

    def _allows(self, origin: bytes) -> bool:
        return self._any or origin.lower() in self._origins
