"""The keys that an issuer signs tokens with, read from the JSON Web Key Set (RFC 7517) it publishes.

Only asymmetric keys for signatures are taken, each with the algorithms it may be used with: those of its own `alg`, or
those that fit its kind. A symmetric key in a published set is everybody's and so nobody's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jwt

MAX_KEYS = 100
_LEAST_RSA_BITS = 2048
# Members of private keys. An issuer that publishes one by mistake is still known by its public half.
_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth"})
_OF_RSA = ("RS256", "RS384", "RS512")
_OF_CURVES = {"P-256": ("ES256",), "P-384": ("ES384",)}
ALGORITHMS = frozenset({*_OF_RSA, *(name for names in _OF_CURVES.values() for name in names)})
"""What tokens may be signed with."""


class SigningKey(NamedTuple):
    """A public key, and the algorithms it verifies."""

    key: Any
    algorithms: tuple[str, ...]


KeySet = Mapping[str, tuple[SigningKey, ...]]
"""Key id -> the keys of this id; issuers may use one id for keys of several kinds."""


def read_key_set(document: Any) -> KeySet:
    """The usable keys of a decoded key set. What is for another purpose, or malformed, is left out.

    Raises:
        ValueError: It is no key set, holds more than `MAX_KEYS` keys, or none that can be used.
    """
    rows = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(rows, list) or len(rows) > MAX_KEYS:
        raise ValueError("it is no set of at most 100 keys")
    keys: dict[str, tuple[SigningKey, ...]] = {}
    for row in rows:
        key = _signing_key(row) if isinstance(row, dict) and _is_named(row) else None
        if key is not None:
            keys[row["kid"]] = (*keys.get(row["kid"], ()), key)
    if not keys:
        raise ValueError("it holds no key that tokens can be verified with")
    return keys


def _is_named(row: dict[str, Any]) -> bool:
    kid = row.get("kid")
    return isinstance(kid, str) and bool(kid)


def _signing_key(row: dict[str, Any]) -> SigningKey | None:
    algorithms = _algorithms(row)
    if not algorithms or row.get("use", "sig") != "sig" or not _may_verify(row.get("key_ops", ["verify"])):
        return None
    public = {name: value for name, value in row.items() if name not in _PRIVATE}
    try:
        key = jwt.PyJWK(public, algorithms[0]).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    if row["kty"] == "RSA" and key.key_size < _LEAST_RSA_BITS:
        return None
    return SigningKey(key, algorithms)


def _may_verify(operations: Any) -> bool:
    return isinstance(operations, list) and "verify" in operations


def _algorithms(row: dict[str, Any]) -> tuple[str, ...]:
    kind, curve, named = row.get("kty"), row.get("crv"), row.get("alg")
    fitting: tuple[str, ...] = ()
    if kind == "RSA":
        fitting = _OF_RSA
    elif kind == "EC" and isinstance(curve, str):
        fitting = _OF_CURVES.get(curve, ())
    return fitting if named is None else tuple(name for name in fitting if name == named)
