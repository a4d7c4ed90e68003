"""JSON Web Tokens (RFC 7519) that open the control plane, verified against a given set of keys.

The signature, the algorithm, the issuer, the audience and the lifetime must all be right. The reasons for a refusal are
told to the caller, so they are constant sentences: nothing of a token is repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jwt

from smg.auth.key_set import ALGORITHMS, SigningKey
from smg.auth.principals import Principal, principal_of
from smg.config.control_plane_keys import Role

LEEWAY_SECS = 30
MAX_TOKEN_BYTES = 16 * 1024
# What a library's refusal is to the caller. Its own words may hold claims.
_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (jwt.ExpiredSignatureError, "it has expired"),
    (jwt.ImmatureSignatureError, "it is not valid yet"),
    (jwt.InvalidAudienceError, "it is for another audience"),
    (jwt.InvalidIssuerError, "it is from another issuer"),
    (jwt.MissingRequiredClaimError, "it lacks a claim: exp, iss and aud are needed"),
    (jwt.InvalidSignatureError, "its signature is wrong"),
)


class TokenError(Exception):
    """A token that opens nothing. Its text completes "Invalid JWT: ", and repeats nothing of the token."""


class Unverified(NamedTuple):
    """A token, and what it says of its own signature."""

    token: bytes
    kid: str
    algorithm: str


def read_token(token: bytes) -> Unverified:
    """What a token says of its signature. Raises TokenError if no key of an issuer could have made that."""
    if len(token) > MAX_TOKEN_BYTES:
        raise TokenError("it is too long")
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise TokenError("it is malformed") from None
    kid, algorithm = header.get("kid"), header.get("alg")
    if not isinstance(kid, str) or not kid:
        raise TokenError("it names no key")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise TokenError("its algorithm is not accepted")
    if "crit" in header:
        raise TokenError("it demands an extension")
    return Unverified(token, kid, algorithm)


class TokenVerifier:
    """Verifies tokens of one issuer for one audience; `mapping` is from the issuer's roles to ours."""

    __slots__ = ("_audience", "_issuer", "_mapping")

    def __init__(self, issuer: str, audience: str, mapping: Mapping[str, Role]) -> None:
        self._issuer = issuer
        self._audience = audience
        self._mapping = dict(mapping)

    def verify(self, claimed: Unverified, keys: Sequence[SigningKey]) -> Principal:
        """Whom a token is about. `keys` are those of the id it names; raises TokenError."""
        key = next((key for key in keys if claimed.algorithm in key.algorithms), None)
        if key is None:
            raise TokenError("its key is not known, or not for its algorithm")
        try:
            claims = jwt.decode(
                claimed.token,
                key.key,
                algorithms=[claimed.algorithm],
                audience=self._audience,
                issuer=self._issuer,
                leeway=LEEWAY_SECS,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            reason = next((text for kind, text in _REASONS if isinstance(error, kind)), "it is malformed")
            raise TokenError(reason) from None
        return principal_of(claims, self._mapping)
