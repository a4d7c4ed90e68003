"""Keys that open the gateway's routes, kept as digests and compared in constant time.

A key itself is never stored, so it cannot reach a log, a metric or an error message from here.
"""

from __future__ import annotations

import hmac
from hashlib import sha256

_SCHEME = b"bearer "


def bearer_token(authorization: bytes | None) -> bytes | None:
    """The token of an Authorization header of the Bearer scheme (in any case), or None."""
    if authorization is None or authorization[: len(_SCHEME)].lower() != _SCHEME:
        return None
    return authorization[len(_SCHEME) :]


class SharedKey:
    """One key that all callers share."""

    __slots__ = ("_digest",)

    def __init__(self, key: str) -> None:
        self._digest = sha256(key.encode()).digest()

    def matches(self, token: bytes) -> bool:
        """Whether a token is this key. Takes as long for a near miss as for a far one."""
        return hmac.compare_digest(sha256(token).digest(), self._digest)

    def opens(self, authorization: bytes | None) -> bool:
        """Whether an Authorization header carries this key."""
        token = bearer_token(authorization)
        return token is not None and self.matches(token)
