import pytest

from smg.app.load_metering import load_gauges
from smg.engines.load import RankLoad
from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.load import OverloadOptions, report_of
from smg.fleet.registry import Registry
from smg.fleet.spec import OverloadSpec, WorkerSpec
from smg.fleet.worker import ModelCard, Status, Worker
from smg.telemetry.metrics import Metrics


@pytest.fixture
def registry():
    return Registry()


@pytest.fixture
def add(registry):
    def add_worker(name, *ranks, model="m", overload=OverloadSpec(), **fields):  # noqa: B008  it is frozen
        url = f"http://{name}"
        cards = (ModelCard(model),) if model else ()
        spec = WorkerSpec(url=url, overload=overload)
        worker = Worker(
            name, url, url, Breaker(BreakerOptions()), models=cards, status=Status.READY, spec=spec, **fields
        )
        worker.report = report_of(ranks, 0.0) if ranks else None
        registry.add(worker)
        return worker

    return add_worker


@pytest.fixture
def read(registry):
    """The series of a gauge."""

    def readings(name, **overload):
        metrics = Metrics()
        load_gauges(registry, metrics, OverloadOptions(**overload))
        return getattr(metrics, name).readings()

    return readings


def test_every_rank_has_its_series(add, read):
    add("a", RankLoad(num_running_reqs=1, num_waiting_reqs=2), RankLoad(dp_rank=1, num_running_reqs=3))
    add("any", RankLoad(num_running_reqs=4), model=None)
    assert read("engine_running_requests") == {
        ("http://a", "m", "0"): 1,
        ("http://a", "m", "1"): 3,
        ("http://any", "unknown", "0"): 4,
    }
    assert read("engine_waiting_requests")["http://a", "m", "0"] == 2


def test_what_an_engine_does_not_say_has_no_series(add, read):
    add("a", RankLoad(token_usage=0.5, gen_throughput=9.5, cache_hit_rate=0.0))
    add("b", RankLoad())
    add("silent")
    assert read("engine_token_usage") == {("http://a", "m", "0"): 0.5}
    assert read("engine_gen_throughput") == {("http://a", "m", "0"): 9.5}
    assert read("engine_cache_hit_rate") == {("http://a", "m", "0"): 0.0}


def test_the_halves_of_a_split_deployment_have_their_own(add, read):
    prefill = {
        "mode": "prefill",
        "prefill_bootstrap_queue_reqs": 1,
        "prefill_inflight_queue_reqs": 2,
        "kv_transfer_latency_ms": 7.5,
        "kv_transfer_speed_gb_s": 20.0,
    }
    add("p", RankLoad(disagg=prefill), worker_type="prefill")
    add("d", RankLoad(disagg={"mode": "decode", "decode_transfer_queue_reqs": 4}), worker_type="decode")
    add("r", RankLoad(disagg={"mode": "null", "decode_transfer_queue_reqs": 0}))
    assert read("engine_pd_prefill_queue_reqs") == {("http://p", "prefill", "0"): 3}
    assert read("engine_pd_kv_transfer_latency_ms") == {("http://p", "prefill", "0"): 7.5}
    assert read("engine_pd_kv_transfer_speed_gb_s") == {("http://p", "prefill", "0"): 20.0}
    assert read("engine_pd_decode_queue_reqs") == {("http://d", "decode", "0"): 4}


def test_overloaded_workers_are_counted_by_model(add, read):
    add("a", overloaded=True)
    add("b", overloaded=True)
    add("c", model="other")
    assert read("workers_overloaded", enabled=True) == {("m",): 2, ("other",): 0}


def test_models_without_a_protected_worker_have_no_count(add, read):
    add("a")
    add("b", model="other", overload=OverloadSpec(waiting_requests=1), overloaded=True)
    assert read("workers_overloaded") == {("other",): 1}
