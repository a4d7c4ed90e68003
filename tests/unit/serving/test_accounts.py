import pytest

from smg.errors import UpstreamError
from smg.fleet.registry import Registry
from smg.fleet.worker import Worker
from smg.protocol.requests import ChatRequest
from smg.serving.accounts import CallAccounts, PairAccounts
from smg.serving.call import NO_MODEL, UNSERVED_MODEL, Call, Endpoint
from smg.telemetry.metrics import Metrics

CHAT = Endpoint("chat", "/v1/chat/completions", ChatRequest)


class ClosedBreaker:
    def admits(self, now):
        return True


def worker(kind="regular"):
    return Worker("a", "http://a", "http://a", ClosedBreaker(), worker_type=kind)


def call(model, label=None):
    return Call(CHAT, b"{}", model, label or model)


def counted(family):
    return {labels: counter.value for labels, counter in family.recorded()}


def sampled(family):
    return {labels: sum(histogram.counts) for labels, histogram in family.recorded()}


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def pairs(metrics):
    """The accounts of a gateway in front of pairs."""
    return CallAccounts(metrics, Registry(), lambda _, worker_type: f"{worker_type} policy", ("prefill", "decode"))


def test_a_selection_is_counted_for_the_policy_that_places_the_calls_model():
    metrics, chosen = Metrics(), {"m": "manual", "n": "random", None: "round_robin"}
    registry = Registry()
    accounts = CallAccounts(metrics, registry, lambda model, _type: chosen[model])
    for model, label in (("m", "m"), ("n", "n"), ("m", "m"), (None, NO_MODEL)):
        accounts.placed(call(model, label), worker())
    chosen["n"] = "least_load"
    registry.add(worker())
    accounts.placed(call("n"), worker())
    assert counted(metrics.worker_selection) == {
        ("regular", "http", "m", "manual"): 2,
        ("regular", "http", "n", "random"): 1,
        ("regular", "http", "n", "least_load"): 1,
        ("regular", "http", NO_MODEL, "round_robin"): 1,
    }


def test_models_that_only_wildcard_workers_serve_share_a_series():
    metrics = Metrics()
    accounts = CallAccounts(metrics, Registry(), lambda *_: "random")
    for number in range(5):
        accounts.placed(call(f"invented {number}", UNSERVED_MODEL), worker())
    assert counted(metrics.worker_selection) == {("regular", "http", UNSERVED_MODEL, "random"): 5}


def test_each_leg_of_a_pair_is_a_selection_by_its_own_policy(metrics, pairs):
    for kind in ("prefill", "decode"):
        pairs.placed(call("m"), worker(kind))
    assert counted(metrics.worker_selection) == {
        ("prefill", "http", "m", "prefill policy"): 1,
        ("decode", "http", "m", "decode policy"): 1,
    }


def test_calls_to_pairs_are_told_from_calls_to_single_workers(metrics, pairs):
    pairs.began(call("m")).observe(0.1)
    pairs.lost(call("m"), worker("prefill"), UpstreamError("prefill_request_failed", "lost"))
    route = ("http", "pd", "http", "m", "chat")
    assert counted(metrics.router_requests) == {(*route, "false"): 1}
    assert sampled(metrics.router_request_duration_seconds) == {route: 1}
    assert counted(metrics.router_request_errors) == {(*route, "backend_error"): 1}
    assert counted(metrics.worker_errors) == {("prefill", "http", "backend_error"): 1}


def test_another_attempt_takes_another_worker_of_each_kind(metrics, pairs):
    pairs.retried(call("m"), 1, 0.1)
    pairs.exhausted(call("m"), 2)
    pairs.exhausted(call("m"), 1)
    both = {("prefill", "chat"): 1, ("decode", "chat"): 1}
    assert counted(metrics.worker_retries) == both
    assert counted(metrics.worker_retries_exhausted) == both
    CallAccounts(metrics, Registry(), lambda *_: "random").retried(call("m"), 1, 0.1)
    assert counted(metrics.worker_retries) == both | {("regular", "chat"): 1}


def test_what_only_pairs_do_is_counted_by_model_and_engine(metrics):
    accounts = PairAccounts(metrics)
    prefill = worker("prefill")
    prefill.runtime = "vllm"
    accounts.filled(call("m"), prefill, 0.5)
    accounts.began(call("n"), prefill, 0.0)
    accounts.unmet()
    accounts.transferred("nixl", failed=False)
    accounts.transferred("nixl", failed=True)
    assert sampled(metrics.pd_prefill_duration_seconds) == {("pd", "m", "vllm"): 1}
    assert sampled(metrics.pd_ttft_seconds) == {("pd", "n", "vllm"): 1}
    assert counted(metrics.pd_bootstrap_failures) == {(): 1}
    assert counted(metrics.pd_kv_connector_mode) == {("nixl",): 2}
    assert counted(metrics.pd_kv_transfer_failures) == {(): 1}
