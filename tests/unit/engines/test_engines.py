import pkgutil

import pytest

import smg.engines
from smg.engines import TABLE, engine_of
from smg.engines.plan import NO_ANSWER, Answer

SHARED = {
    "bootstrap",
    "detection",
    "engine",
    "gauges",
    "grpc_services",
    "info",
    "kv_transfer",
    "labels",
    "load",
    "load_routes",
    "merging",
    "plan",
    "prompt_logprobs",
    "providers",
    "systemone",
}


def run(plan, answers):
    """Run a plan against fixed answers; returns what it learned and every path it asked for."""
    asked = []
    try:
        paths = next(plan)
        while True:
            asked += paths
            paths = plan.send({path: answers.get(path, Answer(404)) for path in paths})
    except StopIteration as end:
        return end.value, asked


def models(**card):
    return {"/v1/models": Answer(200, {"data": [card]})}


def labels(runtime, answers):
    return run(engine_of(runtime).read_labels(), answers)[0]


def test_every_engine_file_is_in_the_table_and_every_row_is_an_engine():
    files = {module.name for module in pkgutil.iter_modules(smg.engines.__path__)} - SHARED
    assert {row.split(":")[0].rpartition(".")[2] for row in TABLE.values()} == files
    for name in TABLE:
        assert engine_of(name).name == name


@pytest.mark.parametrize("runtime", ["trtllm", "mlx", "tokenspeed", "external", "unheard of"])
def test_a_runtime_without_a_file_is_generic(runtime):
    assert engine_of(runtime).name == "generic"


SERVER = {
    "model_path": "org/m",
    "served_model_name": "m",
    "tp_size": 8,
    "dp_size": 1,
    "pp_size": 0,
    "version": "0.5.15",
    "weight_version": "42",
    "context_length": 32768,
    "load_balance_method": "",
    "disaggregation_mode": "null",
    "is_embedding": False,
    "internal_states": [{"a": 1}],
}
MODEL = {"model_path": "elsewhere", "tokenizer_path": "tok", "is_generation": True, "architectures": ["A"]}


def test_sglang_is_read_from_both_info_routes_and_server_info_wins():
    answers = models(id="listed", root="root", max_model_len=16) | {
        "/server_info": Answer(200, SERVER),
        "/model_info": Answer(200, MODEL),
    }
    assert labels("sglang", answers) == {
        "model_path": "org/m",
        "served_model_name": "m",
        "tp_size": "8",
        "dp_size": "1",
        "version": "0.5.15",
        "weight_version": "42",
        "context_length": "32768",
        "is_embedding": "false",
        "tokenizer_path": "tok",
        "is_generation": "true",
        "architectures": '["A"]',
        "max_model_len": "16",
    }


def test_sglang_is_asked_by_its_older_routes_when_the_new_ones_are_missing():
    answers = {"/get_server_info": Answer(200, SERVER), "/get_model_info": Answer(200, MODEL)}
    found, asked = run(engine_of("sglang").read_labels(), answers)
    assert (found["tp_size"], found["tokenizer_path"]) == ("8", "tok")
    assert asked[-2:] == ["/get_server_info", "/get_model_info"]


def test_sglang_is_not_asked_by_older_routes_for_another_failure():
    _, asked = run(engine_of("sglang").read_labels(), {"/server_info": Answer(500), "/model_info": NO_ANSWER})
    assert not [path for path in asked if path.startswith("/get_")]


def test_vllm_tells_model_and_version_only():
    answers = models(id="m", root="org/m", max_model_len=4096) | {
        "/version": Answer(200, {"version": "0.11.2"}),
        "/server_info": Answer(200, SERVER),
    }
    assert labels("vllm", answers) == {
        "served_model_name": "m",
        "model_path": "org/m",
        "max_model_len": "4096",
        "version": "0.11.2",
    }


def test_a_generic_engine_is_read_from_its_model_list_and_whatever_else_it_has():
    assert labels("generic", models(id="m")) == {"served_model_name": "m"}
    assert labels("generic", models(id="m") | {"/server_info": Answer(200, {"model": "x", "tp_size": 2})}) == {
        "served_model_name": "m",
        "model_id": "x",
        "tp_size": "2",
    }


@pytest.mark.parametrize("runtime", ["sglang", "vllm", "generic"])
@pytest.mark.parametrize(
    "answer", [NO_ANSWER, Answer(404), Answer(500, {"tp_size": 1}), Answer(200), Answer(200, [1]), Answer(200, "x")]
)
def test_an_engine_that_makes_no_sense_yields_no_labels(runtime, answer):
    paths = ("/v1/models", "/version", "/server_info", "/model_info", "/get_server_info", "/get_model_info")
    assert labels(runtime, dict.fromkeys(paths, answer)) == {}


def test_capabilities_are_a_fact_of_each_engine():
    sglang, vllm, generic = (engine_of(name).capabilities for name in ("sglang", "vllm", "generic"))
    assert sglang.pause_modes == ("abort", "retract", "in_place")
    assert sglang.update_from == ("disk", "tensor", "distributed")
    assert (sglang.abort, sglang.flush_cache, sglang.sleep_wake, sglang.reports_weight_version) == (True,) * 4
    assert vllm.pause_modes == ("abort", "wait", "keep")
    assert vllm.update_from == ("disk", "distributed")
    assert (vllm.abort, vllm.flush_cache, vllm.sleep_wake, vllm.reports_weight_version) == (
        False,
        False,
        True,
        False,
    )
    assert not any([generic.pause_modes, generic.update_from, generic.abort, generic.sleep_wake])
