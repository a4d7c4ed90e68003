import pytest

from smg.config.derived import (
    attempt_limit,
    effective_discovery_provider,
    effective_max_concurrent_requests,
    effective_prometheus_host,
    model_aliases,
    protects_from_overload,
    removes_unhealthy_workers,
    selector_labels,
    static_worker_urls,
)
from smg.config.settings import Settings


@pytest.mark.parametrize(
    ("setting", "cores", "limit"),
    [(-1, 1, 4096), (-1, 4, 4096), (-1, 5, 5120), (0, 64, 0), (7, 64, 7)],
)
def test_the_concurrency_limit_follows_the_cores_unless_it_is_set(setting, cores, limit):
    assert effective_max_concurrent_requests(Settings(max_concurrent_requests=setting), cores) == limit


@pytest.mark.parametrize(
    ("host", "metrics_host", "effective"),
    [("10.0.0.1", None, "0.0.0.0"), ("::1", None, "::"), ("::1", "127.0.0.1", "127.0.0.1")],
)
def test_the_metrics_listen_everywhere_unless_told_otherwise(host, metrics_host, effective):
    assert effective_prometheus_host(Settings(host=host, prometheus_host=metrics_host)) == effective


def test_disabled_retries_leave_one_attempt():
    assert attempt_limit(Settings()) == 5
    assert attempt_limit(Settings(disable_retries=True)) == 1


def test_aliases_map_to_their_models():
    assert model_aliases(Settings(model_alias=("a=b", "c=b"))) == {"a": "b", "c": "b"}


@pytest.mark.parametrize(
    ("given", "provider"),
    [
        ({}, None),
        ({"service_discovery": True}, "kubernetes"),
        ({"discovery_provider": "kubernetes"}, "kubernetes"),
        ({"discovery_provider": "file"}, "file"),
    ],
)
def test_workers_are_discovered_where_the_settings_say(given, provider):
    settings = Settings(worker_urls=("http://a",), **given)
    assert effective_discovery_provider(settings) == provider
    assert static_worker_urls(settings) == (() if provider else ("http://a",))


def test_the_labels_of_a_selector_add_up():
    assert selector_labels(("a=b c=d", "e=")) == {"a": "b", "c": "d", "e": ""}


@pytest.mark.parametrize(
    ("settings", "on"),
    [
        ({}, False),
        ({"worker_overload_protection": True}, True),
        ({"worker_overload_shed": True}, True),
        ({"worker_overload_waiting_requests": 8}, True),
        ({"worker_overload_token_usage": 0.8}, True),
        ({"worker_overload_protection": False, "worker_overload_shed": True}, False),
        ({"worker_overload_protection": False, "worker_overload_waiting_requests": 8}, False),
    ],
)
def test_overload_protection_is_on_where_anything_asks_for_it_and_nothing_forbids_it(settings, on):
    assert protects_from_overload(Settings(**settings)) is on


@pytest.mark.parametrize(
    ("settings", "removes"),
    [
        ({}, False),
        ({"service_discovery": True}, True),
        ({"discovery_provider": "file"}, True),
        ({"discovery_provider": "file", "remove_unhealthy_workers": False}, False),
        ({"remove_unhealthy_workers": True}, True),
    ],
)
def test_unhealthy_workers_are_removed_where_discovery_can_bring_them_back(settings, removes):
    assert removes_unhealthy_workers(Settings(**settings)) is removes
