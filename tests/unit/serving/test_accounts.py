from smg.fleet.registry import Registry
from smg.fleet.worker import Worker
from smg.protocol.requests import ChatRequest
from smg.serving.accounts import CallAccounts
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


def test_a_selection_is_counted_for_the_policy_that_places_the_calls_model():
    metrics, chosen = Metrics(), {"m": "manual", "n": "random", None: "round_robin"}
    accounts = CallAccounts(metrics, Registry(), chosen.get)
    for model, label in (("m", "m"), ("n", "n"), ("m", "m"), (None, NO_MODEL)):
        accounts.placed(call(model, label), worker())
    chosen["n"] = "least_load"
    accounts.placed(call("n"), worker())
    assert counted(metrics.worker_selection) == {
        ("regular", "http", "m", "manual"): 2,
        ("regular", "http", "n", "random"): 1,
        ("regular", "http", "n", "least_load"): 1,
        ("regular", "http", NO_MODEL, "round_robin"): 1,
    }


def test_models_that_only_wildcard_workers_serve_share_a_series():
    metrics = Metrics()
    accounts = CallAccounts(metrics, Registry(), lambda _: "random")
    for number in range(5):
        accounts.placed(call(f"invented {number}", UNSERVED_MODEL), worker())
    assert counted(metrics.worker_selection) == {("regular", "http", UNSERVED_MODEL, "random"): 5}
