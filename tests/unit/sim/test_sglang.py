import msgspec
import pytest

from smg.sim.dialect import SimError
from smg.sim.sglang import SGLANG


@pytest.fixture
def engine(control):
    return control("sglang", tokens_per_second=1.0)


def test_it_says_what_it_is(engine):
    _, info = engine.call("GET", "/server_info")
    assert (info["model_path"], info["weight_version"], info["dp_size"]) == ("m", "default", 1)
    assert engine.call("GET", "/get_server_info")[1] == info
    _, model = engine.call("GET", "/model_info")
    assert (model["is_generation"], model["weight_version"]) == (True, "default")
    _, models = engine.call("GET", "/v1/models")
    assert [(card["id"], card["owned_by"]) for card in models["data"]] == [("m", "sglang")]


@pytest.mark.parametrize("path", ["/pause_generation", "/continue_generation", "/abort_request"])
def test_control_routes_want_a_json_body(engine, path):
    assert engine.call("POST", path)[0] == 400
    assert engine.call("POST", path, b"[]")[0] == 400
    assert engine.call("POST", path, {})[0] == 200


@pytest.mark.parametrize(
    ("body", "ended", "running", "waiting"),
    [({}, "abort", 0, 0), ({"mode": "retract"}, None, 0, 1), ({"mode": "in_place"}, None, 1, 0)],
)
def test_pause_modes_differ_in_what_they_do_with_running_requests(engine, body, ended, running, waiting):
    sequence = engine.start()
    status, answer = engine.call("POST", "/pause_generation", body)
    assert (status, answer["status"]) == (200, "ok")
    assert sequence.ended == ended
    assert (len(engine.machine.scheduler.running), len(engine.machine.scheduler.waiting)) == (running, waiting)
    engine.call("POST", "/continue_generation", {})
    assert not engine.machine.stopped


def test_an_unknown_pause_mode_is_refused(engine):
    assert engine.call("POST", "/pause_generation", {"mode": "wait"})[0] == 400
    assert not engine.machine.stopped


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/update_weights_from_disk", {"model_path": "/ckpt/42"}),
        ("/update_weights_from_tensor", {"serialized_named_tensors": []}),
        ("/update_weights_from_distributed", {"names": []}),
    ],
)
def test_refits_set_the_weight_version_and_flush_the_cache(engine, path, body):
    engine.call("POST", "/init_weights_update_group", {"group_name": "weight_update_group"})
    engine.machine.cache.insert([1])
    status, answer = engine.call("POST", path, {**body, "weight_version": 42})
    assert (status, answer["success"]) == (200, True)
    assert engine.call("GET", "/get_weight_version")[1] == {"weight_version": "42"}
    assert engine.call("GET", "/server_info")[1]["weight_version"] == "42"
    assert len(engine.machine.cache) == 0


def test_a_refit_may_keep_the_cache(engine):
    engine.machine.cache.insert([1])
    engine.call("POST", "/update_weights_from_disk", {"model_path": "/c", "flush_cache": False})
    assert len(engine.machine.cache) == 1


def test_a_refit_names_its_source(engine):
    assert engine.call("POST", "/update_weights_from_disk", {})[0] == 400
    assert engine.call("POST", "/update_weights_from_tensor", {})[0] == 400
    assert engine.machine.weight_updates == 0
    engine.call("POST", "/update_weights_from_disk", {"model_path": "/ckpt/42"})
    assert engine.call("GET", "/model_info")[1]["model_path"] == "/ckpt/42"


def test_a_refit_waits_for_running_requests_unless_they_are_paused_or_ended(engine):
    assert engine.waits("/update_weights_from_disk", {})
    sequence = engine.start()
    assert engine.waits("/update_weights_from_disk", {"abort_all_requests": True})
    assert sequence.ended == "abort"
    engine.call("POST", "/pause_generation", {"mode": "in_place"})
    assert not engine.waits("/update_weights_from_disk", {})


def test_a_distributed_refit_needs_its_group(engine):
    assert engine.call("POST", "/update_weights_from_distributed", {"group_name": "g"})[0] == 400
    engine.call("POST", "/init_weights_update_group", {"group_name": "g"})
    assert engine.call("POST", "/update_weights_from_distributed", {"group_name": "g"})[0] == 200
    assert engine.call("POST", "/destroy_weights_update_group", {"group_name": "g"})[0] == 200
    assert engine.call("POST", "/destroy_weights_update_group", {"group_name": "g"})[0] == 400


def test_the_version_alone_can_be_set(engine):
    assert engine.call("POST", "/update_weight_version", {})[0] == 400
    sequence = engine.start()
    engine.call("POST", "/update_weight_version", {"new_version": "9", "abort_all_requests": True})
    assert (engine.machine.weight_version, sequence.ended) == ("9", "abort")


def test_a_cache_in_use_is_not_flushed(engine):
    engine.start()
    assert engine.call("POST", "/flush_cache")[0] == 400
    engine.call("POST", "/abort_request", {"abort_all": True})
    assert engine.call("GET", "/flush_cache")[0] == 200


def test_requests_are_aborted_by_id(engine):
    first, second = engine.start(rid="a"), engine.start(rid="b")
    engine.call("POST", "/abort_request", {"rid": "b"})
    assert (first.ended, second.ended) == (None, "abort")


def test_memory_is_released_when_idle_and_taken_back_by_tags(engine):
    sequence = engine.start()
    assert engine.call("POST", "/release_memory_occupation", {})[0] == 400
    engine.machine.scheduler.abort(sequence, engine.now)
    assert engine.call("POST", "/release_memory_occupation", {}) == (200, None)
    engine.call("POST", "/resume_memory_occupation", {"tags": ["weights"]})
    assert engine.machine.stopped
    engine.call("POST", "/resume_memory_occupation", {})
    assert not engine.machine.stopped


def test_metrics_have_the_engines_names(engine):
    engine.start()
    text = engine.call("GET", "/metrics")[1]
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert values['sglang:num_running_reqs{model_name="m"}'] == "1"
    assert {name.partition("{")[0] for name in values} >= {
        "sglang:num_queue_reqs",
        "sglang:token_usage",
        "sglang:gen_throughput",
        "sglang:cache_hit_rate",
    }


def test_errors_are_flat_objects():
    assert msgspec.json.decode(SGLANG.error(SimError(400, "no", "n"))) == {
        "object": "error",
        "message": "no",
        "type": "BadRequest",
        "param": "n",
        "code": 400,
    }


def test_probes_need_no_key():
    assert [SGLANG.needs_key(p) for p in ("/health", "/metrics", "/v1/models", "/server_info")] == [
        False,
        False,
        True,
        True,
    ]
