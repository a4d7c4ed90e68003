import re
import subprocess
import sys

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from smg.telemetry.exposition import preload, render
from smg.telemetry.metrics import Metrics

LINE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)')


def text(metrics: Metrics) -> str:
    return render(metrics)[0].decode()


def samples(metrics: Metrics) -> dict[str, float]:
    """Every sample line by what stands before its value; a line that is neither that nor a comment fails."""
    found = {}
    for line in text(metrics).splitlines():
        if not line.startswith("#"):
            assert LINE.fullmatch(line), line
            key, value = line.rsplit(" ", 1)
            found[key] = float(value)
    return found


def test_nothing_shows_before_the_first_record() -> None:
    metrics = Metrics()
    metrics.http_requests.labels("GET", "/health")
    metrics.http_connections_active.labels()
    metrics.http_request_duration_seconds.labels("GET", "/health")
    assert text(metrics) == ""


def test_the_format_is_the_classic_one() -> None:
    assert render(Metrics())[1] == "text/plain; version=0.0.4; charset=utf-8"


def test_a_counter_keeps_its_name_and_has_no_creation_time() -> None:
    metrics = Metrics()
    metrics.http_requests.labels("POST", "/v1/chat/completions").inc(3)
    assert text(metrics).splitlines() == [
        "# HELP smg_http_requests_total Requests received, by route template.",
        "# TYPE smg_http_requests_total counter",
        'smg_http_requests_total{method="POST",path="/v1/chat/completions"} 3.0',
    ]


def test_a_gauge_without_labels_is_a_bare_name() -> None:
    metrics = Metrics()
    metrics.http_connections_active.labels().set(0)
    assert samples(metrics) == {"smg_http_connections_active": 0}


def test_a_histogram_has_cumulative_buckets_a_sum_and_a_count() -> None:
    metrics = Metrics([0.25, 5.0, 7200.0])
    child = metrics.http_request_duration_seconds.labels("GET", "/health")
    for seconds in (0.125, 0.25, 6, 9000):
        child.observe(seconds)
    labels = 'method="GET",path="/health"'
    assert samples(metrics) == {
        f'smg_http_request_duration_seconds_bucket{{le="0.25",{labels}}}': 2,
        f'smg_http_request_duration_seconds_bucket{{le="5",{labels}}}': 2,
        f'smg_http_request_duration_seconds_bucket{{le="7200",{labels}}}': 3,
        f'smg_http_request_duration_seconds_bucket{{le="+Inf",{labels}}}': 4,
        f"smg_http_request_duration_seconds_sum{{{labels}}}": 9006.375,
        f"smg_http_request_duration_seconds_count{{{labels}}}": 4,
    }
    assert "# TYPE smg_http_request_duration_seconds histogram" in text(metrics)


def test_a_histogram_without_labels_has_only_bounds() -> None:
    metrics = Metrics()
    metrics.cache_aware_match_ratio.labels().observe(0.35)
    found = samples(metrics)
    assert found['smg_cache_aware_match_ratio_bucket{le="0.3"}'] == 0
    assert found['smg_cache_aware_match_ratio_bucket{le="0.4"}'] == 1
    assert found["smg_cache_aware_match_ratio_count"] == 1


def test_a_summary_has_quantiles_a_sum_and_a_count() -> None:
    metrics = Metrics()
    child = metrics.worker_retry_backoff_seconds.labels("1")
    child.observe(0.5)
    child.observe(1.5)
    name = "smg_worker_retry_backoff_seconds"
    found = samples(metrics)
    quantiles = ["0", "0.5", "0.9", "0.95", "0.99", "0.999", "1"]
    values = {rank: found.pop(f'{name}{{attempt="1",quantile="{rank}"}}') for rank in quantiles}
    assert (values["0"], values["1"]) == (0.5, 1.5)
    assert found == {f'{name}_sum{{attempt="1"}}': 2, f'{name}_count{{attempt="1"}}': 2}
    assert f"# TYPE {name} summary" in text(metrics)


def test_what_a_function_reads_replaces_what_was_recorded() -> None:
    metrics = Metrics()
    metrics.worker_requests_active.labels("http://a").set(1)
    metrics.worker_requests_active.function("http://a", read=lambda: 7)
    assert samples(metrics) == {'smg_worker_requests_active{worker="http://a"}': 7}


def test_a_removed_worker_is_not_in_the_text() -> None:
    metrics = Metrics()
    metrics.worker_cb_state.function("http://a", read=lambda: 1)
    metrics.worker_cb_outcomes.labels("http://a", "failure").inc()
    assert "http://a" in text(metrics)
    metrics.remove_worker("http://a")
    assert text(metrics) == ""


def test_our_text_is_what_a_prometheus_parser_reads() -> None:
    metrics = Metrics()
    metrics.worker_cb_transitions.labels("http://a", "closed", "open").inc(2)
    metrics.worker_retry_backoff_seconds.labels("1").observe(1)
    metrics.cache_aware_match_ratio.labels().observe(1)
    parsed = {family.name: family for family in text_string_to_metric_families(text(metrics))}
    assert {name: family.type for name, family in parsed.items()} == {
        "smg_worker_cb_transitions": "counter",
        "smg_worker_retry_backoff_seconds": "summary",
        "smg_cache_aware_match_ratio": "histogram",
    }
    [sample] = parsed["smg_worker_cb_transitions"].samples
    assert (sample.name, sample.labels, sample.value) == (
        "smg_worker_cb_transitions_total",
        {"worker": "http://a", "from": "closed", "to": "open"},
        2,
    )


@settings(deadline=None)  # the first scrape imports a library
@given(st.text(max_size=40))
def test_no_label_value_breaks_a_line(value: str) -> None:
    metrics = Metrics()
    metrics.worker_health.labels(value).set(1)
    assert list(samples(metrics).values()) == [1]


def test_counting_needs_no_prometheus_client_until_a_scrape() -> None:
    script = (
        "import sys, smg.telemetry.exposition as e, smg.telemetry.metrics as m, smg.telemetry.logs\n"
        "m.Metrics().http_rate_limit.labels('allowed').inc()\n"
        "print('prometheus_client' in sys.modules)\n"
        "e.preload()\n"
        "print('prometheus_client' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_preloading_twice_does_nothing_more() -> None:
    preload()
    preload()
