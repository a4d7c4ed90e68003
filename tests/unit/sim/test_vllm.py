import msgspec
import pytest

from smg.sim.dialect import SimError
from smg.sim.vllm import VLLM


@pytest.fixture
def engine(control):
    return control("vllm", tokens_per_second=1.0)


def test_it_says_what_it_is(engine):
    assert engine.call("GET", "/version")[1]["version"]
    assert engine.call("GET", "/v1/models")[1]["data"][0]["owned_by"] == "vllm"
    assert engine.call("GET", "/get_world_size")[1] == {"world_size": 1}


def test_an_abort_pause_ends_requests_and_clears_the_cache(engine):
    sequence = engine.start()
    engine.machine.cache.insert([1])
    assert engine.call("POST", "/pause") == (200, {"status": "paused"})
    assert sequence.ended == "abort"
    assert len(engine.machine.cache) == 0
    assert engine.call("GET", "/is_paused")[1] == {"is_paused": True}
    assert engine.call("POST", "/resume") == (200, {"status": "resumed"})
    assert engine.call("GET", "/is_paused")[1] == {"is_paused": False}


def test_a_keep_pause_keeps_requests_and_cache(engine):
    sequence = engine.start()
    engine.machine.cache.insert([1])
    engine.call("POST", "/pause?mode=keep")
    assert sequence in engine.machine.scheduler.running
    assert len(engine.machine.cache) > 0


def test_only_a_wait_pause_waits_for_running_requests(engine):
    assert engine.waits("/pause", query="mode=wait")
    assert engine.waits("/pause", query="wait_for_inflight_requests=true")
    assert not engine.waits("/pause", query="mode=keep")
    assert not engine.waits("/pause")


def test_an_unknown_pause_mode_is_refused(engine):
    assert engine.call("POST", "/pause?mode=in_place")[0] == 400
    assert not engine.machine.stopped


def test_sleep_stops_it_and_waking_by_tags_takes_all_tags(engine):
    sequence = engine.start()
    assert engine.call("POST", "/sleep?level=1")[0] == 200
    assert sequence.ended == "abort"
    assert engine.call("GET", "/is_sleeping")[1] == {"is_sleeping": True}
    engine.call("POST", "/wake_up?tags=weights")
    assert engine.call("GET", "/is_sleeping")[1] == {"is_sleeping": True}
    engine.call("POST", "/wake_up?tags=kv_cache")
    assert engine.call("GET", "/is_sleeping")[1] == {"is_sleeping": False}
    assert engine.call("POST", "/sleep?level=7")[0] == 400


def test_level_nought_sleep_keeps_the_cache(engine):
    engine.machine.cache.insert([1])
    engine.call("POST", "/sleep?level=0")
    assert engine.machine.stopped
    assert len(engine.machine.cache) == 1
    engine.call("POST", "/wake_up")
    assert not engine.machine.stopped


def test_weights_are_updated_and_named(engine):
    assert engine.call("POST", "/init_weight_transfer_engine", {})[0] == 400
    assert engine.call("POST", "/init_weight_transfer_engine", {"init_info": {}})[0] == 200
    assert engine.call("POST", "/start_weight_update")[0] == 200
    assert engine.call("POST", "/update_weights", {})[0] == 400
    assert engine.call("POST", "/update_weights", {"update_info": {"names": []}})[0] == 200
    assert engine.call("POST", "/finish_weight_update", {"weight_version": 7})[0] == 200
    assert engine.call("GET", "/weight_info")[1] == {"weight_version": "7"}
    assert engine.machine.weight_updates == 1
    assert engine.call("POST", "/update_weight_version", {"new_version": "8"})[1]["new_version"] == "8"


def test_a_collective_rpc_about_weights_is_an_update(engine):
    assert engine.call("POST", "/collective_rpc", {})[0] == 400
    body = {"method": "reload_weights", "kwargs": {"weight_version": "3"}}
    assert engine.call("POST", "/collective_rpc", body) == (200, {"results": [None]})
    engine.call("POST", "/collective_rpc", {"method": "noop"})
    assert (engine.machine.weight_version, engine.machine.weight_updates) == ("3", 1)


def test_requests_are_aborted_by_id_or_all_at_once(engine):
    first, second = engine.start(rid="a"), engine.start(rid="b")
    assert engine.call("POST", "/abort_requests", {"request_ids": ["b"]})[1]["aborted"] == 1
    assert (first.ended, second.ended) == (None, "abort")
    assert engine.call("POST", "/abort_requests", {})[1]["aborted"] == 1


def test_the_prefix_cache_is_reset(engine):
    engine.machine.cache.insert([1])
    assert engine.call("POST", "/reset_prefix_cache")[0] == 200
    assert len(engine.machine.cache) == 0


def test_metrics_have_the_engines_names(engine):
    engine.start()
    text = engine.call("GET", "/metrics")[1]
    assert 'vllm:num_requests_running{model_name="m"} 1\n' in text
    assert "\nvllm:num_requests_waiting{" in text
    assert "\nvllm:kv_cache_usage_perc{" in text
    assert engine.call("GET", "/load")[1] == {"server_load": 1}


def test_errors_are_nested_objects():
    assert msgspec.json.decode(VLLM.error(SimError(404, "no", "model"))) == {
        "error": {"message": "no", "type": "NotFoundError", "param": "model", "code": 404}
    }


def test_only_the_public_api_needs_a_key():
    assert [VLLM.needs_key(p) for p in ("/v1/models", "/pause", "/health")] == [True, False, False]
