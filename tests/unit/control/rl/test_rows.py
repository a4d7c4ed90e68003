import pytest

from smg.control.rl.rows import capabilities_row, discovery_row
from smg.engines import engine_of
from smg.fleet.targets import Target
from smg.fleet.worker import ModelCard, Status

SGLANG = {
    "source": "static",
    "pause_modes": ["abort", "retract", "in_place"],
    "update_from": ["disk", "tensor", "distributed"],
    "abort": True,
    "flush_cache": True,
    "sleep_wake": True,
    "reports_weight_version": True,
}
VLLM = {
    "source": "static",
    "pause_modes": ["abort", "wait", "keep"],
    "update_from": ["disk", "distributed"],
    "abort": False,
    "flush_cache": False,
    "sleep_wake": True,
    "reports_weight_version": False,
}
NOTHING = {
    "source": "static",
    "pause_modes": [],
    "update_from": [],
    "abort": False,
    "flush_cache": False,
    "sleep_wake": False,
    "reports_weight_version": False,
}


def capabilities(runtime="sglang", **labels):
    row = capabilities_row(engine_of(runtime).capabilities, {f"rl.{name}": value for name, value in labels.items()})
    return {name: list(value) if isinstance(value, tuple) else value for name, value in row.items()}


@pytest.fixture
def size(make_worker):
    return lambda text: discovery_row(Target(make_worker(labels={"tp_size": text}), 1))["tp_size"]


def test_a_row_has_every_field(make_worker):
    labels = {
        "version": "0.5",
        "tp_size": "4",
        "dp_size": "2",
        "pp_size": "1",
        "role": "policy",
        "weight_version": "7",
        "other": "x",
    }
    worker = make_worker(
        "a",
        url="http://a@0",
        base_url="http://a",
        models=(ModelCard("m"),),
        runtime="sglang",
        worker_type="decode",
        labels=labels,
        status=Status.DRAINING,
        api_key="hush",
    )
    row = discovery_row(Target(worker, 2))
    assert list(row.pop("capabilities")) == list(SGLANG)
    assert row == {
        "id": "a",
        "url": "http://a@0",
        "base_url": "http://a",
        "engine": "sglang",
        "engine_version": "0.5",
        "model_id": "m",
        "worker_type": "decode",
        "connection_mode": "http",
        "tp_size": 4,
        "dp_size": 2,
        "pp_size": 1,
        "dp_ranks": 2,
        "role": "policy",
        "health": "draining",
        "weight_version": "7",
        "labels": labels,
    }


def test_what_nobody_said_is_null(make_worker):
    row = discovery_row(Target(make_worker(), 1))
    names = ["engine_version", "model_id", "tp_size", "dp_size", "pp_size", "role", "weight_version"]
    assert [row[name] for name in names] == [None] * len(names)
    assert row["labels"] == {}


@pytest.mark.parametrize(
    ("text", "number"), [("2", 2), ("+2", 2), (" 7\t", 7), ("007", 7), ("0", 0), ("9" * 18, 10**18 - 1)]
)
def test_a_size_is_a_whole_number(size, text, number):
    assert size(text) == number


@pytest.mark.parametrize("text", ["", " ", "two", "1.0", "-1", "+", "++1", "1_000", "1e3", "0x2", "\u0662", "9" * 19])
def test_what_is_no_size_is_null(size, text):
    assert size(text) is None


@pytest.mark.parametrize(
    ("runtime", "row"),
    [("sglang", SGLANG), ("vllm", VLLM)]
    + [(runtime, NOTHING) for runtime in ("trtllm", "tokenspeed", "mlx", "generic", "external", "homemade")],
)
def test_capabilities_are_those_of_the_engine(runtime, row):
    assert capabilities(runtime) == row


def test_labels_replace_them_one_by_one():
    assert capabilities(abort="false") == {**SGLANG, "abort": False, "source": "label"}
    assert capabilities("generic", sleep_wake="True") == {**NOTHING, "sleep_wake": True, "source": "label"}


@pytest.mark.parametrize(
    ("text", "names"), [("a", ["a"]), (" a , b ", ["a", "b"]), ("", []), (" ,a,,", ["a"]), ("a,a", ["a", "a"])]
)
def test_lists_are_separated_by_commas(text, names):
    assert capabilities(pause_modes=text) == {**SGLANG, "pause_modes": names, "source": "label"}
    assert capabilities(update_from=text)["update_from"] == names


@pytest.mark.parametrize(
    ("text", "truth"), [("true", True), ("TRUE", True), ("True", True), ("yes", False), ("1", False), ("", False)]
)
def test_only_true_is_true(text, truth):
    assert capabilities("generic", flush_cache=text)["flush_cache"] is truth


def test_a_label_that_says_what_was_known_is_still_the_source():
    assert capabilities(abort="true") == {**SGLANG, "source": "label"}


def test_other_labels_are_nobodys_source():
    assert capabilities(pause_mode="abort", source="x", other="y") == SGLANG
