"""vLLM: model names and version are all its HTTP routes tell; parallelism stays unknown."""

from __future__ import annotations

from smg.engines.engine import Capabilities, Engine
from smg.engines.gauges import Gauges
from smg.engines.info import card_labels
from smg.engines.labels import Labels, pick, same
from smg.engines.plan import Plan

_MODELS = "/v1/models"
_VERSION = "/version"


def read_labels() -> Plan[Labels]:
    """The first model of the list, and the version."""
    answers = yield (_MODELS, _VERSION)
    return {**card_labels(answers[_MODELS]), **pick(answers[_VERSION].members, same("version"))}


VLLM = Engine(
    "vllm",
    read_labels,
    Capabilities(
        pause_modes=("abort", "wait", "keep"),
        update_from=("disk", "distributed"),
        sleep_wake=True,
    ),
    load_gauges=(
        Gauges(
            running="vllm:num_requests_running",
            waiting="vllm:num_requests_waiting",
            usage=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
            rank_label="engine",
        ),
    ),
    flush_path="/reset_prefix_cache",
    split="transfer",
)
