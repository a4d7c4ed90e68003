"""The accounts of every exchange: HTTP metrics and the access line."""

from __future__ import annotations

import time

from smg.net.exchange import Exchange
from smg.net.routes import Route
from smg.telemetry.access_log import AccessLog
from smg.telemetry.instruments import Counter, Histogram
from smg.telemetry.metrics import Metrics

# What the log shows for a client that left before it was answered; it is never sent.
CLIENT_LEFT = 499


class HttpAccounts:
    """Counts exchanges of known routes, and writes one line for each that ends."""

    def __init__(self, metrics: Metrics, access_log: AccessLog) -> None:
        self._metrics = metrics
        self._log = access_log
        self._routes: dict[tuple[str, str], tuple[Counter, Histogram]] = {}
        self._responses: dict[tuple[str, int, str], Counter] = {}
        self.under_way: dict[Exchange, None] = {}
        metrics.http_connections_active.function(read=lambda: len(self.under_way))

    def began(self, exchange: Exchange) -> None:
        """An exchange has a route and begins; those without one are not counted."""
        route = exchange.route
        if route is not None:
            self._route(route)[0].value += 1
            self.under_way[exchange] = None

    def ended(self, exchange: Exchange) -> None:
        """An exchange is over, one way or another."""
        route = exchange.route
        now = time.perf_counter()
        if route is not None:
            del self.under_way[exchange]
            if exchange.status:
                self._route(route)[1].observe(exchange.answered_at - exchange.started_at)
                self._response(route, exchange).value += 1
        self._log.record(
            exchange.method,
            exchange.path,
            exchange.status or CLIENT_LEFT,
            int((now - exchange.started_at) * 1e6),
            exchange.request_id,
            exchange.worker,
            exchange.body.size,
            exchange.bytes_out,
            exchange.error_code,
        )

    def ages_secs(self) -> list[float]:
        """How long each exchange under way has been so."""
        now = time.perf_counter()
        return [now - exchange.started_at for exchange in self.under_way]

    def _route(self, route: Route) -> tuple[Counter, Histogram]:
        key = (route.method, route.path)
        series = self._routes.get(key)
        if series is None:
            series = (
                self._metrics.http_requests.labels(*key),
                self._metrics.http_request_duration_seconds.labels(*key),
            )
            self._routes[key] = series
        return series

    def _response(self, route: Route, exchange: Exchange) -> Counter:
        key = (route.path, exchange.status, exchange.error_code)
        series = self._responses.get(key)
        if series is None:
            series = self._metrics.http_responses.labels(route.path, str(exchange.status), exchange.error_code)
            self._responses[key] = series
        return series


class NoAccounts:
    """Keeps none: for listeners that are not the API."""

    def began(self, exchange: Exchange) -> None:
        pass

    def ended(self, exchange: Exchange) -> None:
        pass
