"""The composition root: the one file that names all concrete parts and puts them together.

`compose` builds a gateway from its settings without starting anything; `Gateway` starts it and ends it. What each part
does is its own business.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial

from smg.app import inference
from smg.app.admission import admission_of
from smg.app.load_metering import load_gauges
from smg.app.metering import fleet_gauges, follow_fleet, new_breaker, policy_gauges
from smg.app.placing import Placing, placing_of, required_roles, static_specs
from smg.app.posture import open_surfaces
from smg.config.derived import (
    effective_prometheus_host,
    model_aliases,
    protects_from_overload,
    removes_unhealthy_workers,
)
from smg.config.settings import Settings
from smg.control import engine_metrics as control_engine_metrics
from smg.control import fleet_calls as control_fleet_calls
from smg.control import loads as control_loads
from smg.control import metrics as control_metrics
from smg.control import models as control_models
from smg.control import probes as control_probes
from smg.control import tokenizers as control_tokenizers
from smg.control import workers as control_workers
from smg.control.openapi import routes as control_openapi
from smg.control.rl import routes as control_rl
from smg.control.rl.accounts import ControlAccounts
from smg.control.rl.caller import ControlCaller, ControlOptions
from smg.edge.accounts import HttpAccounts, NoAccounts
from smg.edge.cors import Cors
from smg.edge.front import Filter, Front
from smg.edge.request_id import request_id_filter
from smg.errors import ConfigError
from smg.fleet.health import HealthOptions
from smg.fleet.load import DEFAULT_THRESHOLDS, READ_REPORTS, OverloadOptions, Thresholds
from smg.fleet.registry import Registry
from smg.fleet.worker import Worker
from smg.net.calls import Calls
from smg.net.fetch import Fetcher
from smg.net.http1.pool import PoolOptions
from smg.net.http1.server import Limits, Server
from smg.net.routes import Group, Route, RouteTable
from smg.net.tunnel import Tunnels
from smg.protocol.request_ids import RequestIds
from smg.services.discovery.sources import discovery_of
from smg.services.http2_probe import Http2Probe
from smg.services.inspection import Inspector
from smg.services.jobs import JobQueue
from smg.services.load_monitor import LoadMonitor
from smg.services.prober import Prober
from smg.services.readiness import Readiness
from smg.services.registrar import Registrar, RegistrarOptions
from smg.services.scheduler_gate import SchedulerGate
from smg.services.supervisor import Supervisor
from smg.serving.accounts import CallAccounts
from smg.serving.upstreams.http import HttpUpstream
from smg.telemetry.inflight_age import count_by_age
from smg.telemetry.logs import Logs, get_logger
from smg.telemetry.metrics import Metrics

log = get_logger("smg.app")

LOG_FLUSH_SECS = 0.1
# An exchange that is cut ends within a few turns of the loop.
LONGEST_CUT_SECS = 1.0
_POLL_SECS = 0.005
_NO_FILTERS: dict[Group, tuple[Filter, ...]] = {"public": (), "serving": (), "admin": ()}


class Gateway:
    """One gateway: its listeners, its background loops, and its end.

    `registry`, `upstream`, `control_calls`, `tunnels`, `admission` and `accounts` are there to be looked at, as
    `server` and `metrics_server` are.
    """

    def __init__(self, settings: Settings, logs: Logs) -> None:
        self._settings = settings
        self._logs = logs
        now = time.monotonic
        metrics = Metrics(settings.prometheus_duration_buckets)
        registry = self.registry = Registry(model_aliases(settings))
        fetcher = Fetcher()

        placing = self._placing = placing_of(settings, registry, metrics, now)

        self._jobs = JobQueue(capacity=settings.job_queue_capacity, concurrency=settings.job_queue_concurrency)
        health = _health(settings)
        self._registrar = Registrar(
            registry,
            self._jobs,
            Inspector(fetcher),
            partial(new_breaker, settings, metrics, registry, placing.recheck),
            options=_registrar(settings),
            health=health,
            choose_http2=Http2Probe(fetcher, wanted=settings.upstream_http2).choose,
        )
        self._discovery = discovery_of(settings, registry, self._registrar, self._jobs, metrics)
        self._readiness = Readiness(registry, required_roles(settings))
        self._prober = Prober(
            registry,
            fetcher,
            health,
            path=settings.health_check_endpoint,
            on_probe=lambda worker, good: metrics.worker_health_checks.labels(
                worker.worker_type, "success" if good else "failure"
            ).inc(),
            on_failed=self._give_up if removes_unhealthy_workers(settings) else lambda _worker: None,
        )
        overload = _overload(settings)
        self._load_monitor = LoadMonitor(
            registry,
            fetcher,
            overload,
            interval_secs=settings.load_monitor_interval,
            needed=partial(_is_load_needed, placing) if settings.disable_load_monitoring else lambda _worker: True,
            on_flag=placing.recheck,
        )

        admission = self.admission = admission_of(settings, registry, metrics, fetcher)
        self.upstream = HttpUpstream(
            PoolOptions(idle_timeout_secs=settings.upstream_pool_idle_timeout_secs),
            settings.request_timeout_secs,
            is_own=admission.is_own,
        )
        self.tunnels = Tunnels()
        kinds = required_roles(settings) or ("regular",)
        calls = CallAccounts(metrics, registry, placing.policy_name, kinds)

        pairs = self._pairs = inference.pairs_of(settings, registry, self.upstream, metrics, calls)
        table = inference.table(settings, placing, self.upstream, pairs, self.tunnels)

        self.control_calls = Calls()
        self._control_accounts = ControlAccounts(metrics)
        follow_fleet(registry, metrics, placing.sessions, self.upstream, self.control_calls, calls)
        fleet_gauges(registry, metrics, placing.sessions, self.upstream)
        for policies in placing.policies:
            policy_gauges(policies, metrics)
        load_gauges(registry, metrics, overload)

        accounts = self.accounts = HttpAccounts(metrics, logs.access)
        metrics.http_inflight_request_age_count.source(lambda: count_by_age(accounts.ages_secs()))
        rows = admission.guarded(
            [
                *control_probes.routes(registry, self._readiness, fetcher, kinds),
                *control_models.routes(registry, fetcher, lambda token: admission.is_own(token.encode())),
                *control_workers.routes(registry, self._registrar, self._jobs),
                *control_loads.routes(registry, time.time),
                *control_fleet_calls.routes(registry, fetcher),
                *control_engine_metrics.routes(registry, fetcher),
                *control_tokenizers.routes(),
                *_rl_routes(settings, registry, self.control_calls, self._control_accounts),
                *inference.routes(table, settings, registry, calls, admission.limits),
            ]
        )
        rows += control_openapi.routes(rows, admission.access)
        ids = RequestIds(settings.request_id_headers)
        cors = Cors(settings.cors_allowed_origins) if settings.cors_allowed_origins else None
        front = Front(RouteTable(rows), admission.filters, (request_id_filter(ids),), accounts, admission.gate, cors)
        self.server = Server(front, _limits(settings))
        metrics_front = Front(RouteTable(control_metrics.routes(metrics)), _NO_FILTERS, (), NoAccounts(), None)
        self.metrics_server = Server(metrics_front, Limits())
        self._supervisor = Supervisor()

    async def start(self) -> None:
        """Listen, start the background loops and register the workers of the command line.

        Raises ConfigError when addresses cannot be listened on.
        """
        settings = self._settings
        metrics_host = effective_prometheus_host(settings)
        problems = [
            *await _listen(self.server, settings.host, settings.port, "--port"),
            *await _listen(self.metrics_server, metrics_host, settings.prometheus_port, "--prometheus-port"),
        ]
        if problems:
            raise ConfigError(problems)
        self._supervisor.start("log flush", self._flush_logs)
        self._supervisor.start("health probes", self._prober.run)
        self._supervisor.start("load monitor", self._load_monitor.run)
        self._supervisor.start("policy upkeep", self._sweep_policies)
        if isinstance(self.admission.gate, SchedulerGate):
            self._supervisor.start("scheduler slots", self.admission.gate.run)
        if self.admission.tokens is not None:
            self._supervisor.start("signing keys", self.admission.tokens.run)
        self._registrar.add_specs(static_specs(settings))
        if self._discovery is not None:
            self._supervisor.start("discovery", self._discovery.run)
            if settings.worker_urls:
                urls = " ".join(settings.worker_urls)
                log.warning("worker URLs are not registered while workers are discovered", urls=urls)
        log.info("listening", host=settings.host, port=settings.port, policy=settings.policy)
        surfaces = open_surfaces(settings)
        if surfaces:
            log.warning("security posture: open to whoever reaches this gateway", surfaces="; ".join(surfaces))

    def begin_draining(self) -> None:
        """Say that this gateway is leaving; it serves on."""
        self._readiness.drain()
        self.control_calls.close()

    def stop_listening(self) -> None:
        """Take no new connection."""
        self.server.stop_listening()

    @property
    def in_flight(self) -> int:
        """Exchanges under way."""
        return self.server.busy

    async def close(self) -> None:
        """End everything that is left. What is cut gives back what it holds, and its access line is written."""
        self.server.stop_listening()
        self.server.abort()
        self.metrics_server.stop_listening()
        self.metrics_server.abort()
        await self._cut_exchanges()
        await self._supervisor.stop()
        await self._jobs.close()
        if self._pairs is not None:
            await self._pairs.close()
        self.tunnels.close()
        self.upstream.close()
        self.control_calls.close()
        self._control_accounts.flush()

    async def _cut_exchanges(self) -> None:
        """Wait for the end of exchanges whose connections were cut, but not for ever."""
        deadline = time.monotonic() + LONGEST_CUT_SECS
        while self.accounts.under_way and time.monotonic() < deadline:  # noqa: ASYNC110  as `in_flight`, it has no event
            await asyncio.sleep(_POLL_SECS)

    def _give_up(self, worker: Worker) -> None:
        log.warning("worker stays unhealthy: it is removed", worker=worker.url)
        self._registrar.remove(worker.id)

    async def _flush_logs(self) -> None:
        while True:
            await asyncio.sleep(LOG_FLUSH_SECS)
            self._logs.flush()

    async def _sweep_policies(self) -> None:
        interval_secs = self._settings.eviction_interval_secs
        while interval_secs:
            await asyncio.sleep(interval_secs)
            for policies in self._placing.policies:
                policies.sweep(time.monotonic())
            if self._placing.sessions is not None:
                self._placing.sessions.sweep(time.monotonic())


def compose(settings: Settings, logs: Logs) -> Gateway:
    """A gateway of these settings, not started yet. Call it on the loop that will run it."""
    return Gateway(settings, logs)


async def _listen(server: Server, host: str, port: int, flag: str) -> list[str]:
    """Listen, or say why that is not possible."""
    try:
        await server.listen(host, port)
    except OSError as error:
        return [f"{flag}: cannot listen on {host}:{port}: {error.strerror or error}"]
    return []


def _rl_routes(settings: Settings, registry: Registry, calls: Calls, accounts: ControlAccounts) -> list[Route]:
    """The RL control plane, or the empty place where it would be."""
    if not settings.enable_rl:
        return control_rl.absent_routes()
    options = ControlOptions(settings.rl_control_timeout_secs, settings.rl_fanout_concurrency)
    return control_rl.routes(registry, ControlCaller(options, calls), accounts)


# --- settings into the options of the parts


def _health(settings: Settings) -> HealthOptions:
    return HealthOptions(
        interval_secs=settings.health_check_interval_secs,
        timeout_secs=settings.health_check_timeout_secs,
        success_threshold=settings.health_success_threshold,
        failure_threshold=settings.health_failure_threshold,
        enabled=not settings.disable_health_check,
    )


def _overload(settings: Settings) -> OverloadOptions:
    waiting, usage = settings.worker_overload_waiting_requests, settings.worker_overload_token_usage
    thresholds = Thresholds(waiting or DEFAULT_THRESHOLDS.waiting_requests, usage or DEFAULT_THRESHOLDS.token_usage)
    return OverloadOptions(protects_from_overload(settings), thresholds)


def _is_load_needed(placing: Placing, worker: Worker) -> bool:
    """Whether a policy places requests on this worker by its load."""
    models: list[str | None] = [card.id for card in worker.models] or [None]
    return any(p.of(model).name in READ_REPORTS for model in models for p in placing.policies)


def _registrar(settings: Settings) -> RegistrarOptions:
    return RegistrarOptions(
        startup_timeout_secs=settings.worker_startup_timeout_secs,
        startup_check_interval_secs=settings.worker_startup_check_interval,
        startup_delay_secs=settings.worker_startup_delay,
        dp_aware=settings.dp_aware,
    )


def _limits(settings: Settings) -> Limits:
    return Limits(
        max_body_bytes=settings.max_payload_size,
        header_read_timeout_secs=settings.header_read_timeout_secs,
        idle_timeout_secs=settings.idle_connection_timeout_secs,
        upload_stall_timeout_secs=settings.stream_body_stall_timeout_secs,
        sse_keepalive_secs=settings.sse_keepalive_secs,
    )
