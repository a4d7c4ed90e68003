import pytest

from smg.config.derived import (
    attempt_limit,
    effective_max_concurrent_requests,
    effective_prometheus_host,
    model_aliases,
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
