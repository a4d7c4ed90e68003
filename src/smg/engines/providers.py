"""External providers: by what host they are known, what they do not speak, where their keys and their routes are.

A provider is a worker like any other, but it is somebody else's: it gets only what is meant for it. One that is not in
the table is an OpenAI-compatible address that may speak anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

AUTHORIZATION: Final = b"authorization"
KEY_HEADERS: Final = (b"x-api-key", b"x-goog-api-key")
"""Headers in which callers show their key to a provider whose own API wants it there."""


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider. Its hosts end in `domain`; `lacks` are the APIs, by their names in metrics, that it does not have.

    `key_header` is where its own API takes a key; where it offers OpenAI's, that is `Authorization`. `routes` are paths
    that differ from ours at that domain, `lists_models` is what its list of models there wants beside a key in its own
    header; without, it takes a bearer token.
    """

    name: str
    domain: str = ""
    lacks: frozenset[str] = frozenset()
    key_header: bytes = AUTHORIZATION
    routes: Mapping[str, str] = field(default_factory=dict)
    lists_models: tuple[tuple[bytes, bytes], ...] = ()


_MESSAGES = frozenset({"messages", "count_tokens"})
_INTERACTIONS = frozenset({"interactions"})
_RESPONSES = frozenset({"responses"})

PROVIDERS: Final = (
    Provider("openai", "openai.com", _MESSAGES | _INTERACTIONS),
    Provider(
        "anthropic",
        "anthropic.com",
        _RESPONSES | _INTERACTIONS,
        b"x-api-key",
        lists_models=((b"anthropic-version", b"2023-06-01"),),
    ),
    Provider("xai", "x.ai", _INTERACTIONS),
    Provider(
        "gemini",
        "googleapis.com",
        _MESSAGES | _RESPONSES,
        b"x-goog-api-key",
        {
            "/v1/chat/completions": "/v1beta/openai/chat/completions",
            "/v1/embeddings": "/v1beta/openai/embeddings",
            "/v1/models": "/v1beta/openai/models",
            "/v1/interactions": "/v1beta/interactions",
        },
    ),
)
ANY: Final = Provider("external")
FLEET_LACKS: Final = _INTERACTIONS
"""What no engine of the fleet speaks."""

_BY_NAME = {provider.name: provider for provider in PROVIDERS}


def provider_of(url: str) -> str | None:
    """The name of the provider that a URL's host belongs to, or None for an address of one's own."""
    provider = _at(url)
    return None if provider is None else provider.name


def provider_for(url: str, named: str | None = None) -> Provider:
    """The provider behind an external worker's URL; `named` is what its registration says, and counts first."""
    if named is not None:
        return _BY_NAME.get(named) or Provider(named)
    return _at(url) or ANY


def path_at(url: str, path: str) -> str:
    """The path of a route of ours at an external worker, which may have a base path, and may end that in `/v1`."""
    base = urlsplit(url).path.rstrip("/")
    if not base:
        provider = _at(url)
        return path if provider is None else provider.routes.get(path, path)
    if base.endswith("/v1"):
        path = path.removeprefix("/v1")
    return base + path


def list_fields(url: str, key: str) -> list[tuple[bytes, bytes]]:
    """The headers that ask for the list of models at an external worker, with a caller's key."""
    provider = _at(url)
    if provider is None or not provider.lists_models:
        return [(AUTHORIZATION, f"Bearer {key}".encode())]
    return [(provider.key_header, key.encode()), *provider.lists_models]


def _at(url: str) -> Provider | None:
    host = urlsplit(url).hostname or ""
    return next((p for p in PROVIDERS if host == p.domain or host.endswith(f".{p.domain}")), None)
