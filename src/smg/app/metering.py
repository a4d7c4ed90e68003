"""What the fleet leaves in the metrics, and what its changes mean to those who keep something per worker."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable
from functools import partial

from smg.config.settings import Settings
from smg.fleet.breaker import Breaker, BreakerOptions, State
from smg.fleet.policy_book import Policies
from smg.fleet.registry import Change, Registry
from smg.fleet.spec import WorkerSpec
from smg.fleet.sticky import StickySessions
from smg.fleet.worker import Status, Worker
from smg.net.calls import Calls
from smg.serving.accounts import CallAccounts
from smg.serving.upstreams.http import HttpUpstream
from smg.telemetry.families import Family, Labels
from smg.telemetry.instruments import Counter, Histogram
from smg.telemetry.metrics import Metrics

Readings = Iterable[tuple[Labels, float]]


def new_breaker(
    settings: Settings, metrics: Metrics, registry: Registry, on_move: Callable[[], None], spec: WorkerSpec
) -> Breaker:
    """The breaker of a worker: the gateway's thresholds, its own laid over them. Its moves count while it is there."""
    own = spec.resilience
    options = BreakerOptions(
        failure_threshold=own.cb_failure_threshold or settings.cb_failure_threshold,
        success_threshold=own.cb_success_threshold or settings.cb_success_threshold,
        timeout_secs=own.cb_timeout_secs or settings.cb_timeout_duration_secs,
        enabled=not settings.disable_circuit_breaker,
    )
    transitions = metrics.worker_cb_transitions

    def moved(old: State, new: State) -> None:
        on_move()
        if spec.url in registry.snapshot.by_url:
            transitions.labels(spec.url, old.name.lower(), new.name.lower()).inc()

    return Breaker(options, moved)


def branch_counter(metrics: Metrics, policy: str) -> Callable[[str], None]:
    """What counts the branches a policy takes; a policy without branches has no such metric."""
    branches: Family[Counter] | None = getattr(metrics, f"{policy}_policy_branch", None)
    counters: dict[str, Counter] = {}

    def count(branch: str) -> None:
        if branches is not None:
            counter = counters.get(branch)
            if counter is None:
                counter = counters[branch] = branches.labels(branch)
            counter.value += 1

    return count


def sampler(metrics: Metrics, policy: str) -> Callable[[str, float], None]:
    """What takes the samples of a policy, by the name of the sample."""
    histograms: dict[str, Histogram | None] = {}

    def observe(name: str, value: float) -> None:
        if name not in histograms:
            family: Family[Histogram] | None = getattr(metrics, f"{policy}_{name}", None)
            histograms[name] = None if family is None else family.labels()
        histogram = histograms[name]
        if histogram is not None:
            histogram.observe(value)

    return observe


def follow_fleet(
    registry: Registry,
    metrics: Metrics,
    sessions: StickySessions | None,
    upstream: HttpUpstream,
    control_calls: Calls,
    calls: CallAccounts,
) -> None:
    """When a worker goes, everything kept for it goes too: connections, sessions, series."""

    def follow(change: Change) -> None:
        worker = change.worker
        if change.kind in {"updated", "removed"}:
            control_calls.drop(worker.id)
        if change.kind == "updated":
            upstream.drop(worker)  # its key may be another one now
        elif change.kind == "removed":
            upstream.drop(worker)
            if sessions is not None:
                sessions.forget(worker.url)
            metrics.remove_worker(worker.url)
            calls.forget_worker(worker.url)

    registry.subscribe(follow)


def fleet_gauges(registry: Registry, metrics: Metrics, sessions: StickySessions | None, upstream: HttpUpstream) -> None:
    """Gauges that are read off the registry when a scrape asks."""
    workers = _Workers(registry)
    metrics.worker_pool_size.source(workers.pool_sizes)
    metrics.worker_requests_active.source(workers.loads)
    metrics.worker_health.source(workers.health)
    metrics.worker_http2.source(workers.http2)
    metrics.worker_cb_state.source(workers.breaker_states)
    metrics.worker_cb_consecutive_failures.source(workers.failures)
    metrics.worker_cb_consecutive_successes.source(workers.successes)
    if sessions is not None:
        metrics.worker_routing_keys_active.source(
            lambda: [
                ((url,), float(count))
                for url, count in sessions.active_sessions().items()
                if url in registry.snapshot.by_url  # those of a removed worker run on, its series does not
            ]
        )
    metrics.router_upstream_send_retries.function("http", read=lambda: upstream.resends or None)


def policy_gauges(policies: Policies, metrics: Metrics) -> None:
    """Gauges of what the policies remember; one that remembers no such thing has no series."""
    for gauge, size in (
        (metrics.cache_tree_chars, "chars"),
        (metrics.cache_tree_tokens, "tokens"),
        (metrics.cache_placement_entries, "placements"),
    ):
        gauge.source(partial(_sizes, policies, size))
    metrics.cache_tree_tenants.source(
        lambda: [
            ((*labels, tree), value)
            for tree, size in (("string", "text_tenants"), ("token", "token_tenants"))
            for labels, value in _sizes(policies, size)
        ]
    )
    metrics.manual_policy_cache_entries.source(lambda: [((), value) for _, value in _sizes(policies, "entries")])


def _sizes(policies: Policies, name: str) -> Readings:
    """One size of every instance that has it, labelled by model; of the one without a model only if it is used."""
    return [
        ((model or "unknown",), float(sizes[name]))
        for model, _, sizes in policies.sizes()
        if name in sizes and (model is not None or sizes[name])
    ]


class _Workers:
    """The registered workers as series."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def _all(self) -> tuple[Worker, ...]:
        return self._registry.snapshot.workers

    def pool_sizes(self) -> Readings:
        sizes = Tally((w.worker_type, w.connection_mode, w.model_id or "unknown") for w in self._all())
        return [(labels, float(count)) for labels, count in sizes.items()]

    def loads(self) -> Readings:
        return [((w.url,), float(w.load)) for w in self._all()]

    def health(self) -> Readings:
        return [((w.url,), float(w.status is Status.READY)) for w in self._all()]

    def http2(self) -> Readings:
        return [((w.url,), float(w.http2)) for w in self._all()]

    def breaker_states(self) -> Readings:
        return [((w.url,), float(w.breaker.state.value)) for w in self._all()]

    def failures(self) -> Readings:
        return [((w.url,), float(w.breaker.failures)) for w in self._all()]

    def successes(self) -> Readings:
        return [((w.url,), float(w.breaker.successes)) for w in self._all()]
