import json

import pytest

from smg.engines.labels import GENERATION_TYPES
from smg.fleet.spec import (
    HealthSpec,
    SpecError,
    WorkerSpec,
    apply_patch,
    checked_spec,
    parse_patch,
    parse_spec,
)

URL = {"url": "http://h:1"}


def spec(**members):
    return parse_spec(json.dumps(URL | members).encode())


def patch(**members):
    return parse_patch(json.dumps(members).encode())


def test_a_url_alone_is_a_spec_with_defaults():
    plain = spec()
    assert plain == WorkerSpec(url="http://h:1")
    assert (plain.worker_type, plain.runtime_type, plain.priority, plain.cost) == (
        "regular",
        "unspecified",
        50,
        1.0,
    )


def test_every_block_is_read():
    full = spec(
        models=[{"id": "m", "aliases": ["a"], "context_length": 8, "unknown": 1}],
        worker_type="prefill",
        runtime_type="vllm",
        labels={"role": "policy"},
        priority=7,
        cost=9,
        api_key="key",
        provider="openai",
        bootstrap_port=9000,
        dp_size=2,
        health={"timeout_secs": 3, "drain_settle_secs": 0},
        overload={"waiting_requests": 4, "token_usage": 0.5},
        http_pool={"connect_timeout_secs": 2},
        resilience={"cb_failure_threshold": 5, "retryable_status_codes": [503]},
        unknown={"is": "ignored"},
    )
    assert full.models[0].aliases == ("a",)
    assert full.models[0].model_type == GENERATION_TYPES
    assert (full.worker_type, full.runtime_type, full.labels) == ("prefill", "vllm", {"role": "policy"})
    assert (full.priority, full.cost, full.api_key, full.provider) == (7, 9.0, "key", "openai")
    assert (full.bootstrap_port, full.dp_size) == (9000, 2)
    assert full.health == HealthSpec(timeout_secs=3, drain_settle_secs=0)
    assert (full.overload.waiting_requests, full.overload.token_usage) == (4, 0.5)
    assert full.http_pool.connect_timeout_secs == 2
    assert full.resilience.retryable_status_codes == (503,)


def test_runtime_is_the_older_name_of_runtime_type():
    assert spec(runtime="mlx").runtime_type == "mlx"
    assert spec(runtime="mlx", runtime_type="vllm").runtime_type == "vllm"


def test_the_address_loses_its_trailing_slash():
    assert spec(url="http://h:1/").url == "http://h:1"
    assert checked_spec(WorkerSpec(url="http://h:1/")).url == "http://h:1"


@pytest.mark.parametrize("url", ["https://h:1", "grpc://h:1", "grpcs://h:1", "ipc:///run/engine.sock"])
def test_workers_of_every_transport_are_taken(url):
    assert spec(url=url).url == url


def test_an_empty_key_is_none():
    assert spec(api_key="").api_key is None


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"url": 5}, "url"),
        ({"url": "ftp://h:1"}, "url"),
        ({"url": "grpc://"}, "url"),
        ({"url": "ipc://relative"}, "url"),
        ({"worker_type": "bogus"}, "worker_type"),
        ({"worker_type": None}, "worker_type"),
        ({"runtime_type": "bogus"}, "runtime_type"),
        ({"priority": "high"}, "priority"),
        ({"priority": -1}, "priority"),
        ({"priority": True}, "priority"),
        ({"cost": 0}, "cost"),
        ({"cost": -1}, "cost"),
        ({"labels": {"tp_size": 2}}, "labels.tp_size"),
        ({"labels": {"a": None}}, "labels.a"),
        ({"labels": [1]}, "labels"),
        ({"labels": {"realtime": "yes"}}, "labels.realtime"),
        ({"labels": {"realtime": "True"}}, "labels.realtime"),
        ({"labels": {"dp_size": "0"}}, "labels.dp_size"),
        ({"labels": {"dp_size": "two"}}, "labels.dp_size"),
        ({"dp_size": 0}, "dp_size"),
        ({"dp_size": "2"}, "dp_size"),
        ({"models": [{}]}, "models[0]"),
        ({"models": [{"id": ""}]}, "models[0].id"),
        ({"models": ["m"]}, "models[0]"),
        ({"bootstrap_port": 70000}, "bootstrap_port"),
        ({"api_key": "two\r\nlines"}, "api_key"),
        ({"health": {"timeout_secs": 0}}, "health.timeout_secs"),
        ({"overload": {"waiting_requests": 0}}, "overload.waiting_requests"),
        ({"overload": {"token_usage": 1.5}}, "overload.token_usage"),
        ({"resilience": {"retryable_status_codes": [1]}}, "resilience.retryable_status_codes"),
    ],
)
def test_a_refusal_names_the_field(members, field):
    with pytest.raises(SpecError) as refused:
        spec(**members)
    assert str(refused.value).startswith(field)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"text"', b"\xff", b'{"url": "\\ud800"}', b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(body):
    with pytest.raises(SpecError):
        parse_spec(body)
    with pytest.raises(SpecError):
        parse_patch(body)


def test_a_missing_url_is_named():
    with pytest.raises(SpecError, match="url"):
        parse_spec(b"{}")


def test_a_number_too_large_to_exist_is_refused():
    with pytest.raises(SpecError):
        parse_spec(b'{"url": "http://h:1", "cost": 1e999}')


def test_label_values_that_the_gateway_acts_on_pass_when_right():
    labels = {"realtime": "true", "dp_size": "16", "tp_size": "anything"}
    assert spec(labels=labels).labels == labels


def test_a_patch_is_laid_over_a_spec():
    before = spec(priority=3, labels={"a": "1", "b": "1"}, health={"timeout_secs": 3}, api_key="old")
    after = apply_patch(before, patch(cost=2, labels={"b": "2"}, health={"disable_health_check": True}, bogus=1))
    assert (after.priority, after.cost, after.api_key) == (3, 2.0, "old")
    assert after.labels == {"a": "1", "b": "2"}
    assert after.health == HealthSpec(timeout_secs=3, disable_health_check=True)


def test_null_in_a_patch_means_absent_and_an_empty_key_takes_the_key_away():
    before = spec(priority=3, api_key="old")
    assert apply_patch(before, patch(priority=None, api_key=None)) == before
    assert apply_patch(before, patch(api_key="")).api_key is None


@pytest.mark.parametrize(
    "members", [{"priority": "x"}, {"cost": -1}, {"labels": {"realtime": "no"}}, {"health": {"timeout_secs": 0}}]
)
def test_a_bad_patch_is_refused(members):
    with pytest.raises(SpecError):
        patch(**members)


def test_keys_do_not_show():
    assert "hush" not in repr(spec(api_key="hush"))
    assert "hush" not in repr(patch(api_key="hush"))


@pytest.mark.parametrize("key", ["x\n", "x\r\n", "a b\n", "\n"])
def test_a_key_that_would_break_a_header_is_refused(key):
    with pytest.raises(SpecError, match="api_key"):
        parse_spec(json.dumps({"url": "http://h:1", "api_key": key}).encode())
