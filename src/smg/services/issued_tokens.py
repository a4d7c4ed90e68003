"""Tokens of an issuer: verified with the keys it publishes."""

from __future__ import annotations

from smg.auth.principals import REALM, Principal
from smg.auth.tokens import TokenError, TokenVerifier, read_token
from smg.errors import Unauthorized
from smg.services.signing_keys import SigningKeys


class IssuedTokens:
    """Whom tokens are about. `run` keeps the keys fresh."""

    def __init__(self, verifier: TokenVerifier, keys: SigningKeys) -> None:
        self._verifier = verifier
        self._keys = keys

    async def principal_of(self, token: bytes) -> Principal:
        """Whom a token is about; raises Unauthorized. May wait for the issuer, if the token names a new key."""
        try:
            claimed = read_token(token)
            return self._verifier.verify(claimed, await self._keys.find(claimed.kid))
        except TokenError as error:
            raise Unauthorized(f"Invalid JWT: {error}", REALM) from None

    async def run(self) -> None:
        """Fetch and renew the keys until cancelled."""
        await self._keys.run()
