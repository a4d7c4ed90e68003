from dataclasses import replace

import pytest

from smg.config.checks import check
from smg.config.settings import OPTIONS, Settings

LIMITED = [row for row in OPTIONS if {row.minimum, row.above, row.maximum} != {None}]


def complaints(**fields):
    return [(complaint.field, complaint.text) for complaint in check(Settings(**fields), OPTIONS)]


def about(**fields):
    """The fields that something is wrong with."""
    return [field for field, _ in complaints(**fields)]


def as_value(row, number):
    """The number as a value of the option: a list that holds it, for a list."""
    return (row.item(number),) if row.many else row.item(number)


@pytest.mark.parametrize("row", LIMITED, ids=lambda row: row.field)
def test_a_number_out_of_its_range_is_refused(row):
    needs = {} if row.applies is None else dict([row.applies])
    if row.minimum is not None:
        assert row.field in about(**{row.field: as_value(row, row.minimum - 1)}, **needs)
    if row.above is not None:
        assert row.field in about(**{row.field: as_value(row, row.above)}, **needs)
    if row.maximum is not None:
        assert row.field in about(**{row.field: as_value(row, row.maximum + 1)}, **needs)


@pytest.mark.parametrize(
    "field",
    [
        "port",
        "prometheus_port",
        "max_payload_size",
        "request_timeout_secs",
        "worker_startup_timeout_secs",
        "worker_startup_check_interval",
        "queue_timeout_secs",
        "cb_failure_threshold",
        "cb_success_threshold",
        "cb_timeout_duration_secs",
        "cb_window_duration_secs",
        "health_failure_threshold",
        "health_success_threshold",
        "health_check_interval_secs",
        "health_check_timeout_secs",
        "retry_max_retries",
        "retry_initial_backoff_ms",
        "eviction_interval_secs",
        "block_size",
        "prefix_token_count",
        "max_tree_size",
        "job_queue_capacity",
        "job_queue_concurrency",
        "least_load_default_throughput",
        "least_load_mean_prefill_tokens",
        "balance_token_usage_threshold",
        "overload_token_usage_threshold",
        "cache_ttl_secs",
        "bucket_adjust_interval_secs",
        "load_monitor_interval",
        "worker_overload_waiting_requests",
        "worker_overload_token_usage",
    ],
)
def test_zero_makes_no_sense_for(field):
    assert about(**{field: 0}) == [field]


@pytest.mark.parametrize(
    "field",
    [
        "queue_size",
        "max_concurrent_requests",
        "max_buffered_request_bytes",
        "stream_body_stall_timeout_secs",
        "header_read_timeout_secs",
        "idle_connection_timeout_secs",
        "sse_keepalive_secs",
        "shutdown_grace_period_secs",
        "upstream_pool_idle_timeout_secs",
        "worker_startup_delay",
        "max_idle_secs",
        "rate_limit_tokens_per_second",
        "retry_jitter_factor",
        "cache_threshold",
        "least_load_max_waiting_requests",
        "overlap_decay",
        "selection_temperature",
    ],
)
def test_zero_has_a_meaning_for(field):
    assert about(**{field: 0}) == []


def test_the_sentence_gives_the_limit_and_the_value():
    assert complaints(port=0) == [("port", "must be at least 1, got 0")]
    assert complaints(request_timeout_secs=0.0) == [("request_timeout_secs", "must be above 0, got 0")]
    assert complaints(retry_jitter_factor=1.5) == [("retry_jitter_factor", "must be at most 1, got 1.5")]


@pytest.mark.parametrize(
    ("switch", "field"),
    [("disable_retries", "retry_max_retries"), ("disable_circuit_breaker", "cb_failure_threshold")],
)
def test_the_numbers_of_a_disabled_feature_are_not_checked(switch, field):
    assert about(**{field: 0}) == [field]
    assert about(**{field: 0, switch: True}) == []


@pytest.mark.parametrize("field", ["rl_control_timeout_secs", "rl_fanout_concurrency"])
def test_the_control_plane_s_numbers_are_checked_once_it_is_on(field):
    assert about(**{field: 0}) == []
    assert about(**{field: 0, "enable_rl": True}) == [field]
    assert about(**{field: 1, "enable_rl": True}) == []


def test_health_numbers_are_checked_even_when_probing_is_off_since_one_worker_may_ask_for_it():
    assert about(health_check_interval_secs=0, disable_health_check=True) == ["health_check_interval_secs"]


def test_power_of_two_needs_two_workers_or_none_yet():
    one, two = ("http://a",), ("http://a", "http://b")
    assert about(policy="power_of_two", worker_urls=one) == ["policy"]
    assert about(policy="power_of_two", worker_urls=two) == []
    assert about(policy="power_of_two") == []
    assert about(policy="random", worker_urls=one) == []


def test_only_cache_aware_needs_eviction():
    assert about(policy="cache_aware", eviction_interval_secs=0) == ["eviction_interval_secs"]
    assert about(policy="random", eviction_interval_secs=0) == []


def test_the_hash_index_needs_boundaries():
    assert about(cache_index="hash") == ["cache_boundaries"]
    assert about(cache_index="hash", cache_boundaries=(256,)) == []


@pytest.mark.parametrize(
    ("boundaries", "sound"), [((256, 512, 1024), True), ((512, 256), False), ((256, 256), False), ((0, 256), False)]
)
def test_boundaries_ascend_from_above_zero(boundaries, sound):
    assert about(cache_boundaries=boundaries) == ([] if sound else ["cache_boundaries"])


def test_a_usage_threshold_above_one_is_one_way_to_turn_it_off():
    assert about(balance_token_usage_threshold=1.5, overload_token_usage_threshold=2.0) == []


def test_a_queue_needs_a_time_to_wait():
    assert about(queue_size=1, queue_timeout_secs=0) == ["queue_timeout_secs"]
    assert about(queue_size=0, queue_timeout_secs=0) == []


def test_the_longest_backoff_is_not_below_the_first():
    assert about(retry_initial_backoff_ms=100, retry_max_backoff_ms=99) == ["retry_max_backoff_ms"]
    assert about(retry_initial_backoff_ms=100, retry_max_backoff_ms=100) == []
    assert about(retry_initial_backoff_ms=100, retry_max_backoff_ms=99, disable_retries=True) == []


def test_an_alias_has_one_model():
    assert about(model_alias=("a=b", "a=c")) == ["model_alias"]
    assert about(model_alias=("a=b", "c=b")) == []


@pytest.mark.parametrize("bounds", [(), (2.0, 1.0), (1.0, 1.0)])
def test_buckets_ascend(bounds):
    assert about(prometheus_duration_buckets=bounds) == ["prometheus_duration_buckets"]


@pytest.mark.parametrize(
    ("host", "metrics_host", "collides"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("0.0.0.0", "127.0.0.1", True),
        ("127.0.0.1", None, True),
        ("127.0.0.1", "127.0.0.2", False),
    ],
)
def test_the_two_listeners_do_not_share_an_address(host, metrics_host, collides):
    found = about(host=host, prometheus_host=metrics_host, port=5, prometheus_port=5)
    assert found == (["prometheus_port"] if collides else [])


def test_a_rule_is_not_asked_about_a_field_that_is_wrong_by_itself():
    assert about(retry_initial_backoff_ms=-5, retry_max_backoff_ms=-9) == [
        "retry_initial_backoff_ms",
        "retry_max_backoff_ms",
    ]


def test_a_rule_is_not_asked_about_a_field_that_holds_a_stand_in():
    settings = Settings(policy="power_of_two", worker_urls=("http://a",))
    assert check(settings, OPTIONS, unsound={"worker_urls"}) == []


def test_the_check_of_a_changed_copy_is_the_check_of_its_values():
    assert check(replace(Settings(), port=70000), OPTIONS)[0].field == "port"


def test_discovery_is_asked_for_in_one_spelling():
    given = {"service_discovery": True, "discovery_provider": "kubernetes", "selector": ("a=b",)}
    assert about(**given) == ["discovery_provider"]
    assert about(**{**given, "service_discovery": False}) == []
    assert about(**{**given, "discovery_provider": None}) == []


@pytest.mark.parametrize("spelling", [{"service_discovery": True}, {"discovery_provider": "kubernetes"}])
def test_discovery_of_pods_needs_a_selector(spelling):
    assert about(**spelling) == ["selector"]
    assert about(**spelling, prefill_selector=("a=b",)) == ["selector"]
    assert about(**spelling, selector=("a=b",)) == []


@pytest.mark.parametrize("spelling", [{"service_discovery": True}, {"discovery_provider": "kubernetes"}])
def test_discovery_of_pairs_needs_the_selector_of_a_role(spelling):
    pairs = {"pd_disaggregation": True, **spelling}
    assert about(**pairs) == ["prefill_selector"]
    assert about(**pairs, selector=("a=b",)) == ["prefill_selector"]
    for field in ("prefill_selector", "decode_selector", "encode_selector"):
        assert about(**pairs, **{field: ("a=b",)}) == []


def test_discovery_in_a_file_needs_the_file_and_no_selector():
    assert about(discovery_provider="file") == ["discovery_file"]
    assert about(discovery_provider="file", discovery_file="workers.yaml") == []


@pytest.mark.parametrize("field", ["selector", "prefill_selector", "decode_selector", "encode_selector"])
def test_a_label_has_one_value(field):
    assert about(**{field: ("a=b c=d", "a=c")}) == [field]
    assert about(**{field: ("a=b", "a=b")}) == []


def test_a_single_worker_url_that_is_not_registered_is_no_trouble_for_power_of_two():
    given = {"policy": "power_of_two", "worker_urls": ("http://a",)}
    assert about(**given, service_discovery=True, selector=("a=b",)) == []


def test_tenant_limits_need_their_file():
    assert complaints(tenant_rate_limit_enabled=True) == [
        ("tenant_rate_limit_enabled", "needs --tenant-rate-limit-config")
    ]
    assert about(tenant_rate_limit_enabled=True, tenant_rate_limit_config="t.yaml") == []
    assert about(tenant_rate_limit_config="t.yaml") == []


def test_no_two_callers_share_a_key_and_none_is_repeated():
    assert complaints(tenant_api_key=("a:hush", "b:hush")) == [("tenant_api_key", "gives 'b' the same key as 'a'")]
    assert complaints(tenant_api_key=("a:hush",), api_key="hush") == [
        ("tenant_api_key", "gives 'a' the same key as --api-key")
    ]
    assert about(tenant_api_key=("a:x", "a:y", "b:z"), api_key="w") == []


LEGS = {"pd_disaggregation": True, "policy": "random"}
ONE_OF_EACH = {"prefill": ("http://p 9001",), "decode": ("http://d",)}


def test_legs_mean_nothing_without_pairs():
    assert about(prefill=("http://p",)) == ["pd_disaggregation"]
    assert about(decode=("http://d",)) == ["pd_disaggregation"]
    assert about(**LEGS, **ONE_OF_EACH) == []


def test_pairs_may_begin_without_legs():
    assert about(**LEGS) == []
    assert about(**LEGS, prefill=("http://p",)) == []


def test_an_engine_is_one_leg_or_the_other():
    ((field, text),) = complaints(**LEGS, prefill=("http://a 9001",), decode=("http://b", "http://a"))
    assert field == "decode"
    assert "http://a" in text


@pytest.mark.parametrize("leg", ["prefill", "decode"])
def test_power_of_two_needs_two_workers_of_a_leg_or_none_yet(leg):
    chosen = {**LEGS, f"{leg}_policy": "power_of_two"}
    assert about(**chosen, **ONE_OF_EACH) == ["prefill_policy"]
    assert about(**chosen, **ONE_OF_EACH | {leg: ("http://x", "http://y")}) == []
    assert about(**chosen) == []
    assert about(**chosen, **ONE_OF_EACH, discovery_provider="file", discovery_file="f") == []
    assert about(**{**LEGS, "policy": "power_of_two"}, **ONE_OF_EACH) == ["prefill_policy"]


@pytest.mark.parametrize("leg", ["prefill", "decode"])
def test_a_leg_s_cache_aware_needs_eviction_too(leg):
    chosen = {**LEGS, f"{leg}_policy": "cache_aware", "eviction_interval_secs": 0}
    ((field, text),) = complaints(**chosen)
    assert field == "eviction_interval_secs"
    assert f"--{leg}-policy is cache_aware" in text
    assert about(**{**chosen, "pd_disaggregation": False}) == []


ISSUER = {"jwt_issuer": "https://issuer", "jwt_audience": "smg"}


def test_an_issuer_and_an_audience_need_each_other():
    ((field, text),) = complaints(jwt_issuer="https://issuer")
    assert field == "jwt_issuer"
    assert "--jwt-audience" in text
    assert about(jwt_audience="smg") == ["jwt_issuer"]
    assert about(**ISSUER) == []


@pytest.mark.parametrize("of_issuer", [{"jwt_jwks_uri": "https://issuer/keys"}, {"jwt_role_mapping": ("ops=admin",)}])
def test_what_is_about_an_issuer_needs_one(of_issuer):
    assert complaints(**of_issuer) == [("jwt_issuer", "is needed by --jwt-jwks-uri and --jwt-role-mapping")]
    assert about(**ISSUER, **of_issuer) == []


def test_a_role_of_the_issuer_stands_for_one_of_ours():
    assert complaints(**ISSUER, jwt_role_mapping=("ops=admin", "ops=user")) == [
        ("jwt_role_mapping", "maps 'ops' to two roles")
    ]
    assert about(**ISSUER, jwt_role_mapping=("ops=admin", "ops=admin", "Ops=user", "dev=user")) == []


@pytest.mark.parametrize("elsewhere", [{"api_key": "hush"}, {"tenant_api_key": ("red:other", "blue:hush")}])
def test_a_key_of_the_control_plane_opens_nothing_else(elsewhere):
    ((field, text),) = complaints(control_plane_api_keys=("a:Ann:admin:hush",), **elsewhere)
    assert field == "control_plane_api_keys"
    assert text == "gives 'a' a key that --api-key or --tenant-api-key gives to somebody else"
    assert about(control_plane_api_keys=("a:Ann:admin:own",), **elsewhere) == []


def test_no_two_holders_share_a_key_of_the_control_plane():
    assert complaints(control_plane_api_keys=("a:Ann:admin:hush", "b:Bob:admin:hush")) == [
        ("control_plane_api_keys", "gives 'b' the same key as 'a'")
    ]
    assert about(control_plane_api_keys=("a:Ann:admin:x", "a:Ann:admin:y", "b:Bob:user:z")) == []


def test_a_key_of_the_control_plane_has_one_role():
    twice = ("a:Ann:user:hush", "a:Ann:admin:hush")
    assert complaints(control_plane_api_keys=twice) == [("control_plane_api_keys", "gives a key of 'a' two roles")]
    assert about(control_plane_api_keys=(twice[0], twice[0])) == []
