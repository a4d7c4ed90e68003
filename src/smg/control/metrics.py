"""The one route of the metrics listener."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from smg.net.exchange import Exchange
from smg.net.routes import Route
from smg.telemetry.exposition import render
from smg.telemetry.metrics import Metrics


def routes(metrics: Metrics) -> Sequence[Route]:
    """GET /metrics, in Prometheus' text format."""

    async def scrape(exchange: Exchange) -> None:
        body, content_type = await asyncio.to_thread(render, metrics)  # thousands of series take their time
        exchange.answer(200, body, content_type.encode())

    return [Route("GET", "/metrics", scrape)]
