"""The table of metrics, and the door through which the rest counts.

`Metrics` is the table: one row a metric, and the row's name is how code reaches the family, typed by the
row's kind: `metrics.http_requests.labels("POST", "/v1/chat/completions").inc()`. To add a metric, add a row,
named as the metric is without `smg_` and `_total`. Names, labels and buckets are the published contract of
SMG's metrics listener; a help text lists the values of a label where the set is closed.

Who records what: `smg_http_*` the filters that wrap every route, `smg_admission_*` the admission gate,
`smg_scheduler_*` the scheduler's, `smg_router_*` the dispatch loop, `smg_worker_*` the fleet's shells,
`smg_discovery_*` what discovers workers, the policy counters the loop that asked the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, cast, overload

from smg.config.settings import DURATION_BUCKETS_SECS
from smg.telemetry.families import Family, Kind, Labels, label_rules
from smg.telemetry.instruments import C_co, Counter, Gauge, Histogram, Instrument, Summary

RATIO_BUCKETS: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

Buckets = Literal["none", "duration", "ratio"]


@dataclass(frozen=True, slots=True)
class Row(Generic[C_co]):
    """One metric as the table declares it. On a `Metrics` object its name gives the family instead."""

    name: str
    kind: Kind
    label_names: Labels
    help: str
    make: Callable[[Sequence[float]], C_co]
    buckets: Buckets = "none"

    @overload
    def __get__(self, instance: None, owner: type[Metrics]) -> Row[C_co]: ...
    @overload
    def __get__(self, instance: Metrics, owner: type[Metrics]) -> Family[C_co]: ...
    def __get__(self, instance: Metrics | None, owner: type[Metrics]) -> Row[C_co] | Family[C_co]:
        # Only the class gets here: on an object the family of the same name comes first.
        return self


def _counter(name: str, labels: Labels, help: str) -> Row[Counter]:  # noqa: A002  the format's word
    return Row(name, "counter", labels, help, lambda _bounds: Counter())


def _gauge(name: str, labels: Labels, help: str) -> Row[Gauge]:  # noqa: A002  the format's word
    return Row(name, "gauge", labels, help, lambda _bounds: Gauge())


def _summary(name: str, labels: Labels, help: str) -> Row[Summary]:  # noqa: A002  the format's word
    return Row(name, "summary", labels, help, lambda _bounds: Summary())


def _histogram(
    name: str,
    labels: Labels,
    help: str,  # noqa: A002  the format's word
    buckets: Buckets = "duration",
) -> Row[Histogram]:
    return Row(name, "histogram", labels, help, Histogram, buckets)


_RANK = ("worker", "model", "dp_rank")
_LEG = ("worker", "role", "dp_rank")
_PAIR = ("backend_type", "model", "runtime")
_ROUTE = ("router_type", "backend_type", "connection_mode", "model", "endpoint")


class Metrics:
    """Every family of the table, for one process.

    `duration_buckets_secs` replaces the upper bounds of all duration histograms.
    """

    # HTTP: every request of a known route, control plane included.
    http_requests = _counter("smg_http_requests_total", ("method", "path"), "Requests received, by route template.")
    http_request_duration_seconds = _histogram(
        "smg_http_request_duration_seconds",
        ("method", "path"),
        "Time from a request's head to its answer's head.",
    )
    http_responses = _counter(
        "smg_http_responses_total",
        ("path", "status_code", "error_code"),
        "Answers sent; error_code is the gateway's own code, empty for what a worker answered.",
    )
    http_connections_active = _gauge(
        "smg_http_connections_active", (), "Requests being served, until the last byte of their answers."
    )
    http_inflight_request_age_count = _gauge(
        "smg_http_inflight_request_age_count",
        ("gt", "le"),
        "Requests in flight by age in seconds, above gt up to le; the bins do not add up.",
    )
    http_rate_limit = _counter(
        "smg_http_rate_limit_total", ("result",), "Decisions of the admission limiter: allowed or rejected."
    )

    # Admission.
    admission_inflight = _gauge("smg_admission_inflight", (), "Requests that hold an admission slot.")
    admission_queue_depth = _gauge("smg_admission_queue_depth", (), "Requests waiting for an admission slot.")
    admission_queue_rejected = _counter(
        "smg_admission_queue_rejected_total",
        ("reason",),
        "Requests the queue turned away: full or timeout.",
    )

    # The priority scheduler; a class is system, interactive, default or bulk.
    scheduler_admit = _counter(
        "smg_scheduler_admit_total",
        ("class", "outcome"),
        "Requests by what became of them: admitted, rejected_queue_full, rejected_queue_timeout, preempted or "
        "client_cancelled.",
    )
    scheduler_queue_wait_seconds = _summary(
        "smg_scheduler_queue_wait_seconds", ("class",), "Time that admitted requests had to wait, if they had to."
    )
    scheduler_preemption = _counter(
        "smg_scheduler_preemption_total", ("victim_class", "by_class"), "Slots taken from requests without an answer."
    )
    scheduler_clamp = _counter(
        "smg_scheduler_clamp_total",
        ("tenant", "requested_class", "effective_class"),
        "Requests that asked for a higher class than their tenant gets.",
    )
    scheduler_unknown_priority_value = _counter(
        "smg_scheduler_unknown_priority_value_total",
        ("tenant",),
        "Requests with a priority that is no class; they count as default.",
    )
    scheduler_starvation_promotion = _counter(
        "smg_scheduler_starvation_promotion_total", ("class",), "Requests admitted first because they starved."
    )
    scheduler_inflight = _gauge("smg_scheduler_inflight", ("class",), "Requests that hold a slot.")
    scheduler_queue_depth = _gauge("smg_scheduler_queue_depth", ("class",), "Requests waiting for a slot.")
    scheduler_queue_size_limit = _gauge("smg_scheduler_queue_size_limit", ("class",), "Requests that may wait.")
    scheduler_class_capacity_pressure = _gauge(
        "smg_scheduler_class_capacity_pressure",
        ("class",),
        "How full it is for a class, from 0 to 1: the larger share of the slots it may have and of its queue.",
    )
    scheduler_utilization = _gauge("smg_scheduler_utilization", (), "Slots taken, as a share of all there are.")

    # Router: inference requests on their way to a worker.
    router_requests = _counter("smg_router_requests_total", (*_ROUTE, "streaming"), "Inference requests dispatched.")
    router_request_duration_seconds = _histogram(
        "smg_router_request_duration_seconds",
        _ROUTE,
        "Time an inference request took, from dispatch to its end.",
    )
    router_request_errors = _counter(
        "smg_router_request_errors_total",
        (*_ROUTE, "error_type"),
        "Requests that failed: no_workers, timeout, backend_error, validation_error or internal_error.",
    )
    router_upstream_responses = _counter(
        "smg_router_upstream_responses_total",
        ("router_type", "status_code", "error_code"),
        "Answers workers gave, by status; error_code is the gateway's, empty for a worker's own.",
    )
    router_upstream_send_retries = _counter(
        "smg_router_upstream_send_retries_total",
        ("router_type",),
        "Sends repeated at once because a pooled connection had died.",
    )
    router_request_body_path = _counter(
        "smg_router_request_body_path_total",
        ("path", "reason"),
        "Request bodies read whole (buffered) or passed on as they came (streamed), and why.",
    )

    # Workers.
    worker_pool_size = _gauge(
        "smg_worker_pool_size", ("worker_type", "connection_mode", "model"), "Registered workers."
    )
    worker_requests_active = _gauge(
        "smg_worker_requests_active", ("worker",), "Requests in flight to a worker through this gateway."
    )
    worker_health = _gauge("smg_worker_health", ("worker",), "Whether a worker is ready: 1 or 0.")
    worker_http2 = _gauge("smg_worker_http2", ("worker",), "Whether a worker is spoken to in HTTP/2: 1 or 0.")
    worker_health_checks = _counter(
        "smg_worker_health_checks_total", ("worker_type", "result"), "Health checks made: success or failure."
    )
    worker_selection = _counter(
        "smg_worker_selection_total",
        ("worker_type", "connection_mode", "model", "policy"),
        "Workers chosen for a request, by the policy that chose.",
    )
    worker_errors = _counter(
        "smg_worker_errors_total",
        ("worker_type", "connection_mode", "error_type"),
        "Failures of workers or of the way to them.",
    )
    worker_cb_state = _gauge(
        "smg_worker_cb_state", ("worker",), "A worker's circuit breaker: 0 closed, 1 open, 2 half-open."
    )
    worker_cb_transitions = _counter(
        "smg_worker_cb_transitions_total", ("worker", "from", "to"), "Changes of a worker's circuit breaker."
    )
    worker_cb_outcomes = _counter(
        "smg_worker_cb_outcomes_total",
        ("worker", "outcome"),
        "What requests told a worker's circuit breaker: success or failure.",
    )
    worker_cb_consecutive_failures = _gauge(
        "smg_worker_cb_consecutive_failures", ("worker",), "Failures in a row at a worker's circuit breaker."
    )
    worker_cb_consecutive_successes = _gauge(
        "smg_worker_cb_consecutive_successes",
        ("worker",),
        "Successes in a row at a worker's circuit breaker.",
    )
    worker_retries = _counter(
        "smg_worker_retries_total", ("worker_type", "endpoint"), "Attempts beyond a request's first."
    )
    worker_retries_exhausted = _counter(
        "smg_worker_retries_exhausted_total",
        ("worker_type", "endpoint"),
        "Requests whose every allowed attempt failed.",
    )
    worker_retry_backoff_seconds = _summary(
        "smg_worker_retry_backoff_seconds",
        ("attempt",),
        "Waits before a retry; attempt 1 is the first retry.",
    )
    worker_routing_keys_active = _gauge(
        "smg_worker_routing_keys_active",
        ("worker",),
        "Distinct routing keys with requests in flight to a worker.",
    )

    # Discovery.
    discovery_registrations = _counter(
        "smg_discovery_registrations_total",
        ("source", "result"),
        "Registrations of discovered workers: success, failed, or duplicate (the address is another's).",
    )
    discovery_deregistrations = _counter(
        "smg_discovery_deregistrations_total",
        ("source", "reason"),
        "Discovered workers taken out: reconciled, as their source does not name them any more.",
    )
    discovery_sync_duration_seconds = _histogram(
        "smg_discovery_sync_duration_seconds", ("source",), "Time of one comparison of a source with the fleet."
    )
    discovery_workers_discovered = _gauge(
        "smg_discovery_workers_discovered", ("source",), "Workers that a source names, registered or not."
    )
    discovery_snapshot_errors = _counter(
        "smg_discovery_snapshot_errors_total",
        ("source", "reason"),
        "Readings of a source that came to nothing: unreadable or invalid. The fleet stays as it is.",
    )

    # Load, as engines report it, and what overload protection makes of it.
    engine_running_requests = _gauge("smg_engine_running_requests", _RANK, "Requests an engine runs, by rank.")
    engine_waiting_requests = _gauge("smg_engine_waiting_requests", _RANK, "Requests waiting at an engine, by rank.")
    engine_token_usage = _gauge("smg_engine_token_usage", _RANK, "Share of an engine's KV cache in use, by rank.")
    engine_gen_throughput = _gauge("smg_engine_gen_throughput", _RANK, "Tokens a second an engine generates, by rank.")
    engine_cache_hit_rate = _gauge(
        "smg_engine_cache_hit_rate", _RANK, "Share of an engine's prompt tokens that its prefix cache held, by rank."
    )
    engine_pd_kv_transfer_latency_ms = _gauge(
        "smg_engine_pd_kv_transfer_latency_ms", _LEG, "Time of KV cache transfers at an engine of a split deployment."
    )
    engine_pd_kv_transfer_speed_gb_s = _gauge(
        "smg_engine_pd_kv_transfer_speed_gb_s", _LEG, "Speed of KV cache transfers at an engine of a split deployment."
    )
    engine_pd_prefill_queue_reqs = _gauge(
        "smg_engine_pd_prefill_queue_reqs", _LEG, "Requests queued at a prefill engine before and during transfer."
    )
    engine_pd_decode_queue_reqs = _gauge(
        "smg_engine_pd_decode_queue_reqs", _LEG, "Requests queued at a decode engine before and during transfer."
    )
    workers_overloaded = _gauge("smg_workers_overloaded", ("model",), "Protected workers that are overloaded.")
    worker_overload_shed = _counter(
        "smg_worker_overload_shed_total",
        ("stage",),
        "Requests refused because of overload: at selection, or at dispatch when the chosen worker became overloaded.",
    )

    routing_key_source = _counter(
        "smg_routing_key_source_total", ("source",), "Sticky sessions by what named them: header or rid."
    )

    # Prefill/decode pairs.
    pd_ttft_seconds = _histogram(
        "smg_pd_ttft_seconds", _PAIR, "Time from a request to the first bytes of decode's stream; of streams only."
    )
    pd_prefill_duration_seconds = _histogram(
        "smg_pd_prefill_duration_seconds",
        _PAIR,
        "Time of a prefill leg, from sending it to the end of its answer; the wait for a transfer included, if the "
        "engine waits.",
    )
    pd_bootstrap_failures = _counter(
        "smg_pd_bootstrap_failures_total",
        (),
        "Rendezvous that did not come about: a leg failed, or refused with a 5xx, before both had begun to answer.",
    )
    pd_kv_connector_mode = _counter(
        "smg_pd_kv_connector_mode_total",
        ("mode",),
        "Prefills before a decode call, by kind of KV connector: nixl, mooncake or passthrough.",
    )
    pd_kv_transfer_failures = _counter(
        "smg_pd_kv_transfer_failures_total",
        (),
        "Prefills that gave decode nothing to fetch a cache with, although their connector should: decode computes the "
        "prompt again.",
    )

    # The RL control plane.
    rl_control_calls = _counter(
        "smg_rl_control_calls_total",
        ("op", "result"),
        "Control calls to engines: ok, upstream_error (another status than 2xx), timeout or unreachable. op is the "
        "engine's path if it is a known operation, else other.",
    )
    rl_control_call_duration_seconds = _histogram(
        "smg_rl_control_call_duration_seconds", ("op",), "Time one control call to an engine took."
    )
    rl_fanout = _counter(
        "smg_rl_fanout_total",
        ("result",),
        "Fan-outs: ok, partial (at least one target failed) or no_match.",
    )
    rl_fanout_duration_seconds = _histogram("smg_rl_fanout_duration_seconds", (), "Time one fan-out took.")

    # Policies: which way a decision went.
    cache_aware_policy_branch = _counter(
        "smg_cache_aware_policy_branch_total",
        ("branch",),
        "cache_aware: tree_match, spill, expected_wait_fallback or first_healthy_fallback.",
    )
    cache_aware_match_ratio = _histogram(
        "smg_cache_aware_match_ratio", (), "Share of a request that the prefix index had seen.", "ratio"
    )
    manual_policy_branch = _counter(
        "smg_manual_policy_branch_total",
        ("branch",),
        "manual: occupied_hit, occupied_miss, vacant, no_routing_id or no_healthy_workers.",
    )
    manual_policy_cache_entries = _gauge(
        "smg_manual_policy_cache_entries", (), "Routing keys that the manual policy remembers."
    )
    consistent_hashing_policy_branch = _counter(
        "smg_consistent_hashing_policy_branch_total",
        ("branch",),
        "consistent_hashing: target_worker_hit, target_worker_miss, routing_key_hit, random_fallback "
        "or no_healthy_workers.",
    )
    prefix_hash_policy_branch = _counter(
        "smg_prefix_hash_policy_branch_total",
        ("branch",),
        "prefix_hash: ring_hit, load_balance_walk, fallback_least_load, no_routing_key or no_healthy_workers.",
    )
    cache_tree_chars = _gauge("smg_cache_tree_chars", ("model",), "Characters in a model's prefix tree of texts.")
    cache_tree_tokens = _gauge("smg_cache_tree_tokens", ("model",), "Tokens in a model's prefix tree of tokens.")
    cache_tree_tenants = _gauge(
        "smg_cache_tree_tenants", ("model", "tree"), "Workers that a model's prefix tree knows: string or token."
    )
    cache_placement_entries = _gauge("smg_cache_placement_entries", ("model",), "Prompt heads in a model's hash index.")

    def __init__(self, duration_buckets_secs: Sequence[float] = DURATION_BUCKETS_SECS) -> None:
        bounds = {"none": (), "duration": tuple(sorted(set(duration_buckets_secs))), "ratio": RATIO_BUCKETS}
        rules = label_rules()
        self._families: list[Family[Instrument]] = []
        for attribute, row in _rows():
            family = _family(row, bounds[row.buckets], rules)
            self._families.append(family)
            setattr(self, attribute, family)

    def families(self) -> Iterator[Family[Instrument]]:
        """All families, in the order of the table."""
        return iter(self._families)

    def remove_worker(self, url: str) -> int:
        """End every series that names this worker and say how many there were."""
        named = [family for family in self._families if "worker" in family.label_names]
        return sum(family.remove_matching(worker=url) for family in named)


def _rows() -> list[tuple[str, Row[Instrument]]]:
    members = vars(Metrics).items()
    return [(name, cast("Row[Instrument]", row)) for name, row in members if isinstance(row, Row)]


def _family(
    row: Row[Instrument], bounds: Sequence[float], rules: dict[str, Callable[[str], str]]
) -> Family[Instrument]:
    make = row.make
    return Family(row.name, row.kind, row.label_names, help=row.help, make=lambda: make(bounds), rules=rules)


# For tests and for the reference page of metrics.
TABLE: tuple[Row[Instrument], ...] = tuple(row for _, row in _rows())
