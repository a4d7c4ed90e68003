"""Keys that open the gateway's routes, kept as digests and compared in constant time.

A key itself is never stored, so it cannot reach a log, a metric or an error message from here.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

_SCHEME = b"bearer "


def bearer_token(authorization: bytes | None) -> bytes | None:
    """The token of an Authorization header of the Bearer scheme (in any case), or None."""
    if authorization is None or authorization[: len(_SCHEME)].lower() != _SCHEME:
        return None
    return authorization[len(_SCHEME) :]


class _Key(NamedTuple):
    digest: bytes
    tenant: str
    shared: bool


class KeyRing:
    """The shared key and the tenants' keys, `tenants` as pairs of tenant and key; no two keys are alike.

    A token is found by its digest, so that a look-up takes the same time however many keys there are. What its timing
    could tell is about digests, and nobody can choose those byte by byte; the last comparison is constant in time
    all the same.

    Every key opens the serving routes as its tenant: `auth:<tenant>`, and for the shared key `auth:` with its SHA-256
    in hexadecimal digits, by which files can name it. Only the shared key opens admin routes.
    """

    __slots__ = ("_keys", "shared_tenant")

    def __init__(self, shared: str | None = None, tenants: Iterable[tuple[str, str]] = ()) -> None:
        self._keys: dict[bytes, _Key] = {}
        for tenant, key in tenants:
            digest = sha256(key.encode()).digest()
            self._keys[digest] = _Key(digest, f"auth:{tenant}", shared=False)
        self.shared_tenant: str | None = None
        if shared is not None:
            digest = sha256(shared.encode()).digest()
            self.shared_tenant = f"auth:{digest.hex()}"
            self._keys[digest] = _Key(digest, self.shared_tenant, shared=True)

    @property
    def locks(self) -> bool:
        """Whether there is any key: without one, every route is open."""
        return bool(self._keys)

    def tenant_of(self, authorization: bytes | None) -> str | None:
        """The tenant that an Authorization header identifies; None if it opens nothing."""
        key = self._key(bearer_token(authorization))
        return None if key is None else key.tenant

    def administers(self, authorization: bytes | None) -> bool:
        """Whether an Authorization header opens admin routes."""
        key = self._key(bearer_token(authorization))
        return key is not None and key.shared

    def holds(self, token: bytes) -> bool:
        """Whether a token is one of the keys."""
        return self._key(token) is not None

    def _key(self, token: bytes | None) -> _Key | None:
        if token is None:
            return None
        digest = sha256(token).digest()
        key = self._keys.get(digest)
        return key if key is not None and hmac.compare_digest(key.digest, digest) else None
