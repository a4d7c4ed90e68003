"""What an external provider hears of a client's headers: who pays, and what its API needs. Nothing of the gateway.

A key of the gateway's own never goes to a provider, wherever the client put it; nor does a routing key, which means
something in this deployment only. Which of the client's credentials is meant for the provider depends on the API:

    bearer    `Authorization` alone: OpenAI's routes, wherever they are offered
    own       the header of the provider's own API if the client sent it, else `Authorization`
    as sent   `x-api-key` and `Authorization`, as they came: Anthropic's route

A client that shows none gets the worker's key, where the API wants it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Literal

from smg.auth.keys import bearer_token
from smg.engines.providers import AUTHORIZATION, KEY_HEADERS, Provider
from smg.protocol.headers import forwarded

CredentialStyle = Literal["bearer", "own", "as sent"]
Field = tuple[bytes, bytes]

_NOT_FOR_PROVIDERS: Final = frozenset({AUTHORIZATION, b"x-smg-routing-key"})
_ANTHROPIC: Final = b"x-api-key"


class ProviderHeaders:
    """The headers for one provider. `key` is the worker's, `is_own` tells the gateway's own credentials."""

    def __init__(self, provider: Provider, key: str | None, is_own: Callable[[bytes], bool]) -> None:
        self._provider = provider
        self._is_own = is_own
        self._key = None if key is None or is_own(key.encode()) else key.encode()

    def fields(self, headers: dict[bytes, bytes], style: CredentialStyle) -> list[Field]:
        """What goes along of a client's headers, and a credential if there is one."""
        sent = [field for field in headers.items() if forwarded(field[0]) and field[0] not in _NOT_FOR_PROVIDERS]
        return sent + self.credentials(headers, style)

    def credentials(self, headers: dict[bytes, bytes], style: CredentialStyle) -> list[Field]:
        """The credentials alone: the client's, or the worker's."""
        shown = dict(self._shown(headers))
        own = self._provider.key_header
        if style == "as sent":
            wanted: tuple[bytes, ...] = (_ANTHROPIC, AUTHORIZATION)
        elif style == "own" and own in shown:
            wanted = (own,)
        else:
            wanted = (AUTHORIZATION,)
        found = [(name, shown[name]) for name in wanted if name in shown]
        return found or self._of_the_worker(style)

    def _shown(self, headers: dict[bytes, bytes]) -> Iterator[Field]:
        for name in (AUTHORIZATION, *KEY_HEADERS):
            value = headers.get(name)
            if value and not self._is_own((bearer_token(value) if name == AUTHORIZATION else None) or value):
                yield name, value

    def _of_the_worker(self, style: CredentialStyle) -> list[Field]:
        if self._key is None:
            return []
        if style == "bearer" or self._provider.key_header == AUTHORIZATION:
            return [(AUTHORIZATION, b"Bearer " + self._key)]
        return [(self._provider.key_header, self._key)]
