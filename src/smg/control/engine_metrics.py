"""GET /engine_metrics: the metrics of all engines in one text, told apart by a `worker_addr` label.

Only ready workers are scraped, each address once, so that one dead engine does not make every scrape as slow as its
deadline. Whoever asks while a scrape is under way gets its result: the route is open, and a fleet's metrics are a lot
of work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from smg.control.fleet_calls import http_engines
from smg.engines.merging import Merger
from smg.errors import UpstreamError
from smg.fleet.registry import Registry
from smg.fleet.worker import Worker
from smg.net.exchange import Exchange
from smg.net.fetch import Fetcher
from smg.net.routes import Route
from smg.telemetry.exposition import CONTENT_TYPE

SCRAPE_TIMEOUT_SECS = 5.0
MAX_SCRAPES = 32
"""Engines scraped at once."""
MAX_TEXT_BYTES = 4 << 20

_TEXT = b"text/plain; charset=utf-8"


class ScrapeFailed(Exception):  # noqa: N818  it is an answer
    """There is nothing to merge; the message is for the caller."""


def routes(registry: Registry, fetcher: Fetcher) -> list[Route]:
    """The row of the route table."""
    scraper = EngineMetrics(registry, fetcher)

    async def handler(exchange: Exchange) -> None:
        try:
            merged = await scraper.scrape()
        except ScrapeFailed as error:
            exchange.answer(HTTPStatus.INTERNAL_SERVER_ERROR.value, str(error).encode(), _TEXT)
        else:
            exchange.answer(HTTPStatus.OK.value, merged, CONTENT_TYPE.encode())

    return [Route("GET", "/engine_metrics", handler)]


class EngineMetrics:
    """Scrapes a fleet's engines."""

    def __init__(self, registry: Registry, fetcher: Fetcher) -> None:
        self._registry = registry
        self._fetcher = fetcher
        self._under_way: asyncio.Task[bytes] | None = None

    async def scrape(self) -> bytes:
        """The merged text. Raises ScrapeFailed when there is no worker, or none answers."""
        if self._under_way is None:
            self._under_way = asyncio.get_running_loop().create_task(self._scrape())
            self._under_way.add_done_callback(self._ended)
        return await asyncio.shield(self._under_way)  # others may wait for it too

    def _ended(self, task: asyncio.Task[bytes]) -> None:
        self._under_way = None
        if not task.cancelled():
            task.exception()  # heard, even if everybody who waited has left

    async def _scrape(self) -> bytes:
        engines = http_engines(self._registry.snapshot.ready)
        if not engines:
            raise ScrapeFailed("No available workers")
        free = asyncio.Semaphore(MAX_SCRAPES)

        async def fetch(worker: Worker) -> bytes | None:
            async with free:
                return await self._fetch(worker)

        texts = await asyncio.gather(*map(fetch, engines))
        answered = [(worker.base_url, text) for worker, text in zip(engines, texts, strict=True) if text is not None]
        if not answered:
            raise ScrapeFailed("All backend requests failed")
        return await asyncio.to_thread(_merged, answered)

    async def _fetch(self, worker: Worker) -> bytes | None:
        try:
            answer = await self._fetcher.get(
                f"{worker.base_url}/metrics",
                api_key=worker.api_key,
                timeout_secs=SCRAPE_TIMEOUT_SECS,
                max_bytes=MAX_TEXT_BYTES,
            )
        except UpstreamError:
            return None
        return answer.body if answer.status == HTTPStatus.OK else None


def _merged(texts: Sequence[tuple[str, bytes]]) -> bytes:
    merger = Merger()
    for address, text in texts:
        merger.feed(text.decode("utf-8", "replace"), address)
    return merger.finish().encode()
