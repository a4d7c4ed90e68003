"""The inference routes: for each table of endpoints who places its calls, what sends them, and what serves it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from smg.app.placing import Placing
from smg.config.derived import attempt_limit
from smg.config.settings import Settings
from smg.fleet.placement import Placer
from smg.fleet.registry import Registry
from smg.fleet.retry import RetryOptions
from smg.net.exchange import Exchange
from smg.net.routes import Route
from smg.net.tunnel import Tunnels
from smg.protocol.hints import KEY_HEADER
from smg.services.registrar import new_worker_id
from smg.services.tenant_limits import TenantLimits
from smg.serving.accounts import CallAccounts, PairAccounts
from smg.serving.body_path import BodyPathOptions
from smg.serving.call import Endpoint
from smg.serving.dispatch import Dispatcher, Upstream
from smg.serving.endpoints import decisions, forwarded, realtime, realtime_http, transcriptions
from smg.serving.endpoints.forwarded import ForwardedEndpoint
from smg.serving.endpoints.realtime import SessionEndpoint
from smg.serving.endpoints.realtime_http import CallEndpoint, CreatingEndpoint
from smg.serving.endpoints.transcriptions import TranscriptionEndpoint
from smg.serving.parse import Parser
from smg.serving.upstreams.decisions import DecisionsUpstream
from smg.serving.upstreams.http import HttpUpstream
from smg.serving.upstreams.pair import PairUpstream
from smg.serving.upstreams.realtime import RealtimeUpstream
from smg.serving.upstreams.uploads import UploadUpstream
from smg.serving.verdicts import Verdicts
from smg.telemetry.metrics import Metrics


class Servant(Protocol):
    """Serves the exchanges of one endpoint."""

    async def serve(self, exchange: Exchange) -> None:
        """Serve one exchange to the last byte of its answer."""


ServantOf = Callable[[Endpoint, Parser, Dispatcher], Servant]

_ONCE = RetryOptions(max_attempts=1)


class Row(NamedTuple):
    """How the routes of some endpoints are served. Without `retry` the gateway's settings say how often is tried."""

    endpoints: Sequence[Endpoint]
    placer: Placer
    upstream: Upstream
    servant_of: ServantOf = ForwardedEndpoint
    retry: RetryOptions | None = None


def table(
    settings: Settings, placing: Placing, http: HttpUpstream, pairs: PairUpstream | None, tunnels: Tunnels
) -> list[Row]:
    """The rows of a gateway that sends over `http`, and to prefill/decode pairs if there are `pairs`."""
    placed = pairs or http
    by_api = placing.by_api
    spoken = RealtimeUpstream(http)
    return [
        Row(forwarded.ENDPOINTS, placing.placer, placed),
        Row((forwarded.RESPONSES,), by_api["responses"], placed),
        Row((forwarded.MESSAGES,), by_api["messages"], placed),
        Row((forwarded.COUNT_TOKENS,), by_api["count_tokens"], http),
        Row((forwarded.INTERACTIONS,), by_api["interactions"], http),
        Row(decisions.ENDPOINTS, placing.decisions, DecisionsUpstream(http, settings.max_payload_size)),
        Row(transcriptions.ENDPOINTS, placing.transcriptions, UploadUpstream(http), TranscriptionEndpoint),
        Row(realtime.ENDPOINTS, placing.realtime, spoken, partial(SessionEndpoint, tunnels), _ONCE),
        Row(realtime_http.CREATING, placing.realtime, spoken, CreatingEndpoint, _ONCE),
        Row(realtime_http.CALLING, placing.realtime, spoken, CallEndpoint, _ONCE),
    ]


def routes(
    rows: Sequence[Row], settings: Settings, registry: Registry, calls: CallAccounts, limits: TenantLimits | None
) -> list[Route]:
    """The rows of the route table."""
    served: list[Route] = []
    for row in rows:
        retry = row.retry or _retry(settings)
        parser = Parser(registry, row.placer, _body_path(settings), _key_headers(settings), calls, limits)
        dispatcher = Dispatcher(
            row.placer, row.upstream, retry, calls, settings.max_payload_size, time.monotonic, random.Random()
        )
        served += [endpoint.route(row.servant_of(endpoint, parser, dispatcher).serve) for endpoint in row.endpoints]
    return served


def pairs_of(
    settings: Settings, registry: Registry, http: HttpUpstream, metrics: Metrics, calls: CallAccounts
) -> PairUpstream | None:
    """The way to pairs of workers, if there are to be pairs."""
    if not settings.pd_disaggregation:
        return None
    return PairUpstream(
        http,
        Verdicts(calls, time.monotonic),
        PairAccounts(metrics),
        is_gone=lambda worker: worker.id not in registry.snapshot.by_id,
        max_answer_bytes=settings.max_payload_size,
        rng=random.Random(),
        new_id=new_worker_id,
    )


# --- settings into the options of the parts


def _retry(settings: Settings) -> RetryOptions:
    return RetryOptions(
        max_attempts=attempt_limit(settings),
        initial_backoff_ms=settings.retry_initial_backoff_ms,
        max_backoff_ms=settings.retry_max_backoff_ms,
        backoff_multiplier=settings.retry_backoff_multiplier,
        jitter_factor=settings.retry_jitter_factor,
    )


def _body_path(settings: Settings) -> BodyPathOptions:
    return BodyPathOptions(
        sticky_override=settings.routing_key_override,
        retries=attempt_limit(settings) > 1,
        max_buffered_bytes=settings.max_buffered_request_bytes,
        pairs=settings.pd_disaggregation,
    )


def _key_headers(settings: Settings) -> list[bytes]:
    names = [name.lower().encode() for name in settings.routing_key_headers]
    return names if KEY_HEADER in names else [*names, KEY_HEADER]
