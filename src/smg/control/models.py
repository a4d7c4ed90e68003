"""GET /v1/models: what this gateway serves, or what a caller's own provider account offers.

The list is public. A caller who shows a key that is not one of the gateway's means it for a provider: the
registered providers are asked with it, and the first that lists anything answers. A gateway key is never
shown to a provider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from smg.auth.keys import bearer_token
from smg.engines.providers import list_fields, path_at, provider_for
from smg.errors import UpstreamError
from smg.fleet.registry import Registry
from smg.fleet.worker import Worker
from smg.net.exchange import Exchange
from smg.net.fetch import Fetcher
from smg.net.routes import Route

SELF_HOSTED = "self_hosted"
PATH = "/v1/models"

_TEXT = b"text/plain; charset=utf-8"
_PROVIDER_TIMEOUT_SECS = 10.0


def routes(registry: Registry, fetcher: Fetcher, is_gateway_key: Callable[[str], bool]) -> list[Route]:
    """The row of the route table. `is_gateway_key` tells the gateway's own keys, shared and tenants'."""

    async def handler(exchange: Exchange) -> None:
        cards: list[dict[str, Any]] = []
        key = caller_key(exchange.headers)
        if key is not None and not is_gateway_key(key):
            cards = await _provider_cards(registry.snapshot.workers, fetcher, key)
        cards = cards or self_hosted_cards(registry)
        if cards:
            exchange.answer(HTTPStatus.OK.value, msgspec.json.encode({"object": "list", "data": cards}))
        else:
            exchange.answer(HTTPStatus.SERVICE_UNAVAILABLE.value, b"No models available", _TEXT)

    return [Route("GET", PATH, handler)]


def caller_key(headers: dict[bytes, bytes]) -> str | None:
    """The key a caller shows: a bearer token, else x-api-key; None if there is none that could be one."""
    key = (bearer_token(headers.get(b"authorization")) or headers.get(b"x-api-key", b"")).strip()
    return key.decode() if key and key.isascii() else None


def self_hosted_cards(registry: Registry) -> list[dict[str, Any]]:
    """One card for each model that an engine of our own serves, ready or not, in the order of registration."""
    own = (worker for worker in registry.snapshot.workers if worker.runtime != "external")
    names = dict.fromkeys(card.id for worker in own for card in worker.models)
    return [_card(name, SELF_HOSTED) for name in names]


async def _provider_cards(workers: Iterable[Worker], fetcher: Fetcher, key: str) -> list[dict[str, Any]]:
    for worker in workers:
        if worker.runtime != "external":
            continue
        try:
            answer = await fetcher.get(
                _url(worker.base_url), fields=list_fields(worker.base_url, key), timeout_secs=_PROVIDER_TIMEOUT_SECS
            )
        except UpstreamError:
            continue
        names = _names(answer.body) if answer.status == HTTPStatus.OK else []
        if names:
            return [_card(name, _provider_name(worker)) for name in names]
    return []


def _names(body: bytes) -> list[str]:
    try:
        cards = msgspec.json.decode(body)["data"]
        return [card["id"] for card in cards if isinstance(card["id"], str)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError, TypeError):
        return []


def _provider_name(worker: Worker) -> str:
    return provider_for(worker.base_url, worker.spec.provider if worker.spec is not None else None).name


def _url(base_url: str) -> str:
    return urlunsplit(urlsplit(base_url)._replace(path=path_at(base_url, PATH)))


def _card(name: str, owner: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": owner}
