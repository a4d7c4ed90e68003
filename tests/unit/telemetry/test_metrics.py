import re

import pytest

from smg.telemetry.families import Family
from smg.telemetry.instruments import Counter, Gauge, Histogram, Summary
from smg.telemetry.metrics import DURATION_BUCKETS_SECS, TABLE, Metrics

KINDS = {"counter": Counter, "gauge": Gauge, "histogram": Histogram, "summary": Summary}
ROUTE = "router_type backend_type connection_mode model endpoint"
# What dashboards rely on: a change here breaks somebody's queries.
PUBLISHED = {
    "smg_http_requests_total": "method path",
    "smg_http_request_duration_seconds": "method path",
    "smg_http_responses_total": "path status_code error_code",
    "smg_http_connections_active": "",
    "smg_http_inflight_request_age_count": "gt le",
    "smg_http_rate_limit_total": "result",
    "smg_admission_inflight": "",
    "smg_admission_queue_depth": "",
    "smg_admission_queue_rejected_total": "reason",
    "smg_router_requests_total": f"{ROUTE} streaming",
    "smg_router_request_duration_seconds": ROUTE,
    "smg_router_request_errors_total": f"{ROUTE} error_type",
    "smg_router_upstream_responses_total": "router_type status_code error_code",
    "smg_router_upstream_send_retries_total": "router_type",
    "smg_router_request_body_path_total": "path reason",
    "smg_worker_pool_size": "worker_type connection_mode model",
    "smg_worker_requests_active": "worker",
    "smg_worker_health": "worker",
    "smg_worker_health_checks_total": "worker_type result",
    "smg_worker_selection_total": "worker_type connection_mode model policy",
    "smg_worker_errors_total": "worker_type connection_mode error_type",
    "smg_worker_cb_state": "worker",
    "smg_worker_cb_transitions_total": "worker from to",
    "smg_worker_cb_outcomes_total": "worker outcome",
    "smg_worker_cb_consecutive_failures": "worker",
    "smg_worker_cb_consecutive_successes": "worker",
    "smg_worker_retries_total": "worker_type endpoint",
    "smg_worker_retries_exhausted_total": "worker_type endpoint",
    "smg_worker_retry_backoff_seconds": "attempt",
    "smg_worker_routing_keys_active": "worker",
    "smg_discovery_registrations_total": "source result",
    "smg_discovery_deregistrations_total": "source reason",
    "smg_discovery_sync_duration_seconds": "source",
    "smg_discovery_workers_discovered": "source",
    "smg_discovery_snapshot_errors_total": "source reason",
    "smg_cache_aware_policy_branch_total": "branch",
    "smg_cache_aware_match_ratio": "",
    "smg_manual_policy_branch_total": "branch",
    "smg_manual_policy_cache_entries": "",
    "smg_consistent_hashing_policy_branch_total": "branch",
    "smg_prefix_hash_policy_branch_total": "branch",
    "smg_cache_tree_chars": "model",
    "smg_cache_tree_tokens": "model",
    "smg_cache_tree_tenants": "model tree",
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_metric_keeps_its_labels(name: str) -> None:
    labels = {row.name: row.label_names for row in TABLE}
    assert labels[name] == tuple(PUBLISHED[name].split())


def test_a_name_stands_in_the_table_once() -> None:
    names = [row.name for row in TABLE]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_a_row_follows_the_rules_of_names(row) -> None:
    assert re.fullmatch(r"smg_[a-z0-9_]+", row.name)
    assert row.name.endswith("_total") == (row.kind == "counter")
    assert row.name.endswith("_seconds") == (row.buckets == "duration" or row.kind == "summary")
    assert (row.buckets != "none") == (row.kind == "histogram")
    assert row.help.endswith(".")


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_a_metric_is_reached_by_its_name(row) -> None:
    family = getattr(Metrics(), row.name.removeprefix("smg_").removesuffix("_total"))
    assert isinstance(family, Family)
    assert family.name == row.name
    assert isinstance(family.labels(*row.label_names), KINDS[row.kind])


def test_families_come_in_the_order_of_the_table() -> None:
    assert [family.name for family in Metrics().families()] == [row.name for row in TABLE]


def test_two_processes_worth_of_metrics_do_not_share_counts() -> None:
    first, second = Metrics(), Metrics()
    first.http_rate_limit.labels("allowed").inc()
    assert second.http_rate_limit.labels("allowed").value == 0


def test_durations_have_the_published_buckets() -> None:
    assert len(DURATION_BUCKETS_SECS) == 29
    assert (DURATION_BUCKETS_SECS[0], DURATION_BUCKETS_SECS[-1]) == (0.001, 7200)
    child = Metrics().http_request_duration_seconds.labels("GET", "/v1/models")
    assert child.bounds == DURATION_BUCKETS_SECS


def test_a_setting_replaces_the_buckets_of_durations_only() -> None:
    metrics = Metrics([5, 0.5, 0.5])
    assert metrics.http_request_duration_seconds.labels("GET", "/").bounds == (0.5, 5)
    assert len(metrics.cache_aware_match_ratio.labels().bounds) == 10


def test_a_removed_worker_is_in_no_family() -> None:
    metrics = Metrics()
    for worker in ("http://a", "http://b"):
        metrics.worker_health.labels(worker).set(1)
        metrics.worker_cb_transitions.labels(worker, "closed", "open").inc()
        metrics.worker_requests_active.function(worker, read=lambda: 1)
    metrics.worker_retries.labels("regular", "chat").inc()
    assert metrics.remove_worker("http://a") == 3
    left = {labels for family in metrics.families() for labels, _ in family.recorded()}
    assert left == {("http://b",), ("http://b", "closed", "open"), ("regular", "chat")}
    assert metrics.worker_requests_active.readings() == {("http://b",): 1}
