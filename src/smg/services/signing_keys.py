"""The issuer's signing keys at hand: fetched when the gateway starts, renewed before they grow old, and asked for again
when a token names one that is not among them.

One loop does all the fetching, so there is never more than one question under way, however many tokens wait for the
answer. The keys come over TLS, or from this machine; a redirect is an answer, and no key set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import msgspec

from smg.auth.key_set import KeySet, SigningKey, read_key_set
from smg.config.hosts import is_confidential, is_loopback
from smg.errors import UpstreamError
from smg.net.fetch import Fetcher
from smg.telemetry.logs import get_logger

log = get_logger("smg.auth")

DISCOVERY_PATH = "/.well-known/openid-configuration"
TIMEOUT_SECS = 10.0
LIFE_SECS = 3600.0
"""Keys older than that open nothing."""
RENEW_SECS = 3000.0
RETRY_SECS = 60.0
"""Between two questions, whether one failed or a token names an unknown key."""
FIRST_RETRY_SECS = 5.0
"""The same while there are no keys at all."""
LONGEST_WAIT_SECS = 2 * TIMEOUT_SECS + 1


class SigningKeys:
    """The keys of one issuer. `jwks_uri` is where they are, unless the issuer's discovery document is to say so.

    `now` is a monotonic clock in seconds.
    """

    def __init__(self, fetcher: Fetcher, issuer: str, jwks_uri: str | None, now: Callable[[], float]) -> None:
        self._fetcher = fetcher
        self._issuer = issuer
        self._jwks_uri = jwks_uri
        self._now = now
        self._keys: KeySet = {}
        self._fetched_at = 0.0
        self._asked_at = float("-inf")
        self._wanted = asyncio.Event()
        self._answered = asyncio.Event()

    async def find(self, kid: str) -> Sequence[SigningKey]:
        """The keys of an id; none if the issuer has none of it. May wait for the issuer, but not for long."""
        keys = self._current().get(kid, ())
        if not keys and self._may_ask():
            if self._answered.is_set():  # else a question is under way, and its answer is for all who wait
                self._answered.clear()
                self._wanted.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(LONGEST_WAIT_SECS):
                    await self._answered.wait()
            keys = self._current().get(kid, ())
        return keys

    async def run(self) -> None:
        """Fetch and renew the keys until cancelled."""
        while True:
            self._answered.clear()
            self._wanted.clear()
            self._asked_at = self._now()
            try:
                self._keys, self._fetched_at = await self._fetch(), self._now()
            except (UpstreamError, ValueError) as error:
                log.warning("signing keys of the issuer could not be fetched", issuer=self._issuer, reason=str(error))
            finally:
                self._answered.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause_secs()):
                    await self._wanted.wait()

    def _current(self) -> KeySet:
        return self._keys if self._now() - self._fetched_at < LIFE_SECS else {}

    def _may_ask(self) -> bool:
        """Whether a question is under way, or there has been none for long enough."""
        return not self._answered.is_set() or self._now() - self._asked_at >= self._retry_secs()

    def _retry_secs(self) -> float:
        return RETRY_SECS if self._current() else FIRST_RETRY_SECS

    def _pause_secs(self) -> float:
        renewed = self._fetched_at >= self._asked_at
        return RENEW_SECS if renewed and self._keys else self._retry_secs()

    async def _fetch(self) -> KeySet:
        return read_key_set(await self._get(self._jwks_uri or await self._discover()))

    async def _discover(self) -> str:
        """Where the issuer says that its keys are."""
        document = await self._get(self._issuer.rstrip("/") + DISCOVERY_PATH)
        found = document.get("jwks_uri") if isinstance(document, dict) else None
        if not isinstance(found, str) or document.get("issuer") != self._issuer:
            raise ValueError("its discovery document is not about it, or names no keys")
        if not is_confidential(found) or (_is_local(found) and not _is_local(self._issuer)):
            raise ValueError("its discovery document names an address that cannot be trusted")
        return found

    async def _get(self, url: str) -> Any:
        answer = await self._fetcher.get(url, timeout_secs=TIMEOUT_SECS)
        if answer.status != HTTPStatus.OK:
            raise ValueError(f"{url} answers {answer.status}")
        try:
            return msgspec.json.decode(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ValueError(f"{url} does not answer with JSON") from None


def _is_local(url: str) -> bool:
    return is_loopback(urlsplit(url).hostname or "")
