"""The composition root: the one file that names all concrete parts and puts them together.

`compose` builds a gateway from its settings without starting anything; `Gateway` starts it and ends it. What each part
does is its own business.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import cast

from smg.app.metering import branch_counter, fleet_gauges, follow_fleet, new_breaker, sampler
from smg.auth.keys import SharedKey
from smg.config.derived import (
    attempt_limit,
    effective_max_concurrent_requests,
    effective_prometheus_host,
    model_aliases,
)
from smg.config.settings import Settings
from smg.control import metrics as control_metrics
from smg.control import models as control_models
from smg.control import probes as control_probes
from smg.control import workers as control_workers
from smg.edge.accounts import HttpAccounts, NoAccounts
from smg.edge.authenticate import shared_key_filter
from smg.edge.body_limit import body_limit
from smg.edge.front import Filter, Front, Gate
from smg.edge.request_id import request_id_filter
from smg.errors import ConfigError
from smg.fleet.health import HealthOptions
from smg.fleet.policies import load as load_policy
from smg.fleet.policies.base import Policy, PolicyContext
from smg.fleet.registry import Registry
from smg.fleet.retry import RetryOptions
from smg.fleet.selection import Policies, Selector
from smg.fleet.sticky import AssignmentMode, StickyOptions, StickySessions
from smg.net.fetch import Fetcher
from smg.net.http1.pool import PoolOptions
from smg.net.http1.server import Limits, Server
from smg.net.routes import Group, RouteTable
from smg.protocol.hints import KEY_HEADER
from smg.protocol.request_ids import RequestIds
from smg.services.admission_gate import AdmissionGate, RateGate
from smg.services.inspection import Inspector
from smg.services.jobs import JobQueue
from smg.services.prober import Prober
from smg.services.readiness import Readiness
from smg.services.registrar import Registrar, RegistrarOptions
from smg.services.supervisor import Supervisor
from smg.serving.accounts import CallAccounts
from smg.serving.body_path import BodyPathOptions
from smg.serving.dispatch import Dispatcher
from smg.serving.endpoints import forwarded
from smg.serving.parse import Parser
from smg.serving.upstreams.http import HttpUpstream
from smg.telemetry.inflight_age import count_by_age
from smg.telemetry.logs import Logs, get_logger
from smg.telemetry.metrics import Metrics

log = get_logger("smg.app")

LOG_FLUSH_SECS = 0.1
_NO_FILTERS: dict[Group, tuple[Filter, ...]] = {"public": (), "serving": (), "admin": ()}


class Gateway:
    """One gateway: its listeners, its background loops, and its end."""

    def __init__(self, settings: Settings, logs: Logs) -> None:
        self._settings = settings
        self._logs = logs
        now = time.monotonic
        metrics = Metrics(settings.prometheus_duration_buckets)
        registry = self._registry = Registry(model_aliases(settings))
        fetcher = Fetcher()

        self._jobs = JobQueue(capacity=settings.job_queue_capacity, concurrency=settings.job_queue_concurrency)
        health = _health(settings)
        self._registrar = Registrar(
            registry,
            self._jobs,
            Inspector(fetcher),
            partial(new_breaker, settings, metrics),
            options=_registrar(settings),
            health=health,
        )
        self._readiness = Readiness(registry)
        self._prober = Prober(
            registry,
            fetcher,
            health,
            path=settings.health_check_endpoint,
            on_probe=lambda worker, good: metrics.worker_health_checks.labels(
                worker.worker_type, "success" if good else "failure"
            ).inc(),
        )

        self._policies = Policies(partial(_policy, settings, metrics, now))
        sessions = self._sessions = _sessions(settings, now)
        selector = Selector(registry, self._policies, sessions, now)
        self._upstream = HttpUpstream(
            PoolOptions(idle_timeout_secs=settings.upstream_pool_idle_timeout_secs), settings.request_timeout_secs
        )
        calls = CallAccounts(metrics, settings.policy)
        parser = Parser(registry, selector, _body_path(settings), _key_headers(settings), calls)
        dispatcher = Dispatcher(
            selector, self._upstream, _retry(settings), calls, settings.max_payload_size, now, random.Random()
        )
        follow_fleet(registry, metrics, self._policies, sessions, self._upstream, calls)
        fleet_gauges(registry, metrics, sessions, self._upstream)

        key = SharedKey(settings.api_key) if settings.api_key is not None else None
        accounts = self._accounts = HttpAccounts(metrics, logs.access)
        metrics.http_inflight_request_age_count.source(lambda: count_by_age(accounts.ages_secs()))
        routes = RouteTable(
            [
                *control_probes.routes(registry, self._readiness, fetcher),
                *control_models.routes(registry, fetcher, partial(_is_gateway_key, key)),
                *control_workers.routes(registry, self._registrar, self._jobs),
                *forwarded.routes(parser, dispatcher, calls),
            ]
        )
        ids = RequestIds(settings.request_id_headers)
        front = Front(routes, _filters(key), (request_id_filter(ids),), accounts, _gate(settings, metrics))
        self._server = Server(front, _limits(settings))
        metrics_front = Front(RouteTable(control_metrics.routes(metrics)), _NO_FILTERS, (), NoAccounts(), None)
        self._metrics_server = Server(metrics_front, Limits())
        self._supervisor = Supervisor()

    async def start(self) -> None:
        """Listen, start the background loops and register the workers of the command line.

        Raises ConfigError when an address cannot be listened on.
        """
        settings = self._settings
        await _listen(self._server, settings.host, settings.port, "--port")
        metrics_host = effective_prometheus_host(settings)
        await _listen(self._metrics_server, metrics_host, settings.prometheus_port, "--prometheus-port")
        self._supervisor.start("log flush", self._flush_logs)
        self._supervisor.start("health probes", self._prober.run)
        self._supervisor.start("policy upkeep", self._sweep_policies)
        self._registrar.add_static(settings.worker_urls, settings.api_key)
        log.info("listening", host=settings.host, port=settings.port, policy=settings.policy)
        if settings.api_key is None:
            log.warning("no API key is configured: every route is open to whoever reaches this address")

    def begin_draining(self) -> None:
        """Say that this gateway is leaving; it serves on."""
        self._readiness.drain()

    def stop_listening(self) -> None:
        """Take no new connection."""
        self._server.stop_listening()

    @property
    def in_flight(self) -> int:
        """Exchanges under way."""
        return self._server.busy

    async def close(self) -> None:
        """End everything that is left."""
        self._server.stop_listening()
        self._server.abort()
        self._metrics_server.stop_listening()
        self._metrics_server.abort()
        await self._supervisor.stop()
        await self._jobs.close()
        self._upstream.close()

    async def _flush_logs(self) -> None:
        while True:
            await asyncio.sleep(LOG_FLUSH_SECS)
            self._logs.flush()

    async def _sweep_policies(self) -> None:
        interval_secs = self._settings.eviction_interval_secs
        while interval_secs:
            await asyncio.sleep(interval_secs)
            self._policies.sweep(time.monotonic())
            if self._sessions is not None:
                self._sessions.sweep(time.monotonic())


def compose(settings: Settings, logs: Logs) -> Gateway:
    """A gateway of these settings, not started yet. Call it on the loop that will run it."""
    return Gateway(settings, logs)


async def _listen(server: Server, host: str, port: int, flag: str) -> None:
    try:
        await server.listen(host, port)
    except OSError as error:
        raise ConfigError([f"{flag}: cannot listen on {host}:{port}: {error.strerror or error}"]) from error


# --- settings into the options of the parts


def _health(settings: Settings) -> HealthOptions:
    return HealthOptions(
        interval_secs=settings.health_check_interval_secs,
        timeout_secs=settings.health_check_timeout_secs,
        success_threshold=settings.health_success_threshold,
        failure_threshold=settings.health_failure_threshold,
        enabled=not settings.disable_health_check,
    )


def _registrar(settings: Settings) -> RegistrarOptions:
    return RegistrarOptions(
        startup_timeout_secs=settings.worker_startup_timeout_secs,
        startup_check_interval_secs=settings.worker_startup_check_interval,
        startup_delay_secs=settings.worker_startup_delay,
    )


def _retry(settings: Settings) -> RetryOptions:
    return RetryOptions(
        max_attempts=attempt_limit(settings),
        initial_backoff_ms=settings.retry_initial_backoff_ms,
        max_backoff_ms=settings.retry_max_backoff_ms,
        backoff_multiplier=settings.retry_backoff_multiplier,
        jitter_factor=settings.retry_jitter_factor,
    )


def _limits(settings: Settings) -> Limits:
    return Limits(
        max_body_bytes=settings.max_payload_size,
        header_read_timeout_secs=settings.header_read_timeout_secs,
        idle_timeout_secs=settings.idle_connection_timeout_secs,
        upload_stall_timeout_secs=settings.stream_body_stall_timeout_secs,
        sse_keepalive_secs=settings.sse_keepalive_secs,
    )


def _body_path(settings: Settings) -> BodyPathOptions:
    return BodyPathOptions(
        sticky_override=settings.routing_key_override,
        retries=attempt_limit(settings) > 1,
        max_buffered_bytes=settings.max_buffered_request_bytes,
    )


def _key_headers(settings: Settings) -> list[bytes]:
    names = [name.lower().encode() for name in settings.routing_key_headers]
    return names if KEY_HEADER in names else [*names, KEY_HEADER]


def _is_gateway_key(key: SharedKey | None, token: str) -> bool:
    return key is not None and key.matches(token.encode())


def _sessions(settings: Settings, now: Callable[[], float]) -> StickySessions | None:
    if not settings.routing_key_override:
        return None
    mode = cast("AssignmentMode", settings.assignment_mode or "delegate")
    return StickySessions(StickyOptions(mode, settings.max_idle_secs), random.Random(), now)


def _filters(key: SharedKey | None) -> dict[Group, tuple[Filter, ...]]:
    """The filters of each route group, in their order."""
    locked: tuple[Filter, ...] = (shared_key_filter(key),) if key is not None else ()
    return {"public": (), "serving": (body_limit, *locked), "admin": (body_limit, *locked)}


def _gate(settings: Settings, metrics: Metrics) -> Gate | None:
    """The admission gate, if there is a limit; its counts show in the metrics."""
    capacity = effective_max_concurrent_requests(settings, os.cpu_count() or 1)
    if capacity <= 0:
        return None
    rejected = metrics.admission_queue_rejected

    def on_rejected(reason: str) -> None:
        rejected.labels(reason).inc()

    gate: AdmissionGate | RateGate
    if settings.rate_limit_tokens_per_second:
        gate = RateGate(capacity, settings.rate_limit_tokens_per_second, settings.queue_timeout_secs, on_rejected)
    else:
        gate = AdmissionGate(capacity, settings.queue_size, settings.queue_timeout_secs, on_rejected)
    metrics.admission_inflight.function(read=lambda: gate.in_flight)
    metrics.admission_queue_depth.function(read=lambda: gate.waiting)
    return gate


def _policy(settings: Settings, metrics: Metrics, now: Callable[[], float]) -> Policy:
    """A policy instance with the settings that bear the names of its options."""
    cls = load_policy(settings.policy)
    chosen = {f.name: getattr(settings, f.name) for f in fields(cls.options) if hasattr(settings, f.name)}
    context = PolicyContext(
        rng=random.Random(),
        now=now,
        count=branch_counter(metrics, settings.policy),
        observe=sampler(metrics, settings.policy),
        warn=log.warning,
    )
    return cls(context, cls.options(**chosen))
