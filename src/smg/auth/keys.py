"""Keys that open the gateway's routes: the shared key and the tenants'."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

from smg.auth.digests import DigestTable

_SCHEME = b"bearer "
_TOKEN_DOTS = 2


def bearer_token(authorization: bytes | None) -> bytes | None:
    """The token of an Authorization header of the Bearer scheme (in any case), or None."""
    if authorization is None or authorization[: len(_SCHEME)].lower() != _SCHEME:
        return None
    return authorization[len(_SCHEME) :]


def is_token(credential: bytes) -> bool:
    """Whether a credential has the form of a signed JSON Web Token: three parts."""
    return credential.count(b".") == _TOKEN_DOTS


class _Key(NamedTuple):
    tenant: str
    shared: bool


class KeyRing:
    """The shared key and the tenants' keys, `tenants` as pairs of tenant and key; no two keys are alike.

    Every key opens the serving routes as its tenant: `auth:<tenant>`, and for the shared key `auth:` with its SHA-256
    in hexadecimal digits, by which files can name it. Only the shared key opens admin routes.
    """

    __slots__ = ("_keys", "shared_tenant")

    def __init__(self, shared: str | None = None, tenants: Iterable[tuple[str, str]] = ()) -> None:
        self._keys: DigestTable[_Key] = DigestTable()
        for tenant, key in tenants:
            self._keys.add(key, _Key(f"auth:{tenant}", shared=False))
        self.shared_tenant: str | None = None
        if shared is not None:
            self.shared_tenant = f"auth:{sha256(shared.encode()).hexdigest()}"
            self._keys.add(shared, _Key(self.shared_tenant, shared=True))

    @property
    def locks(self) -> bool:
        """Whether there is any key: without one, every route is open."""
        return bool(self._keys)

    def tenant_of(self, authorization: bytes | None) -> str | None:
        """The tenant that an Authorization header identifies; None if it opens nothing."""
        key = self._keys.find(bearer_token(authorization))
        return None if key is None else key.tenant

    def administers(self, authorization: bytes | None) -> bool:
        """Whether an Authorization header opens admin routes."""
        key = self._keys.find(bearer_token(authorization))
        return key is not None and key.shared

    def holds(self, token: bytes) -> bool:
        """Whether a token is one of the keys."""
        return self._keys.find(token) is not None
