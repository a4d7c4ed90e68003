"""Engines that are called over gRPC: their services, and what their answers about themselves say, as labels.

Only members that are listed become labels. An engine's server arguments hold its keys and paths too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from smg.engines.labels import Labels, pick, same


class GrpcService(NamedTuple):
    """One engine's service: its full name, and the module of `smg_grpc_proto` that holds its messages."""

    name: str
    module: str


SERVICES: Final[Mapping[str, GrpcService]] = {
    "sglang": GrpcService("sglang.grpc.scheduler.SglangScheduler", "sglang_scheduler_pb2"),
    "vllm": GrpcService("vllm.grpc.engine.VllmEngine", "vllm_engine_pb2"),
    "trtllm": GrpcService("trtllm.TrtllmService", "trtllm_service_pb2"),
    "tokenspeed": GrpcService("tokenspeed.grpc.scheduler.TokenSpeedScheduler", "tokenspeed_scheduler_pb2"),
    "mlx": GrpcService("mlx.grpc.engine.MlxEngine", "mlx_engine_pb2"),
}
"""Runtime -> its service. An engine that answers to several is the first of them."""

# Members that hold further members, which stand for themselves.
_NESTED = ("server_args", "scheduler_info")
_FIELDS = (
    *same(
        "served_model_name",
        "model_id",
        "model_path",
        "tokenizer_path",
        "is_generation",
        "weight_version",
        "max_context_length",
        "context_length",
        "max_model_len",
        "max_seq_len",
        "vocab_size",
        "supports_vision",
        "model_type",
        "architectures",
        "tp_size",
        "dp_size",
        "pp_size",
        "version",
        "max_total_tokens",
        "max_running_requests",
        "load_balance_method",
        "disaggregation_mode",
        "kv_connector",
        "kv_role",
    ),
    ("tensor_parallel_size", "tp_size"),
    ("data_parallel_size", "dp_size"),
    ("pipeline_parallel_size", "pp_size"),
    ("sglang_version", "version"),
    ("max_total_num_tokens", "max_total_tokens"),
    ("max_num_seqs", "max_running_requests"),
)


def read_labels(model: Mapping[str, Any], server: Mapping[str, Any]) -> Labels:
    """The labels of an engine, from its model info and its server info, each as JSON members."""
    members: dict[str, Any] = {}
    for name in _NESTED:
        nested = server.get(name)
        members.update(nested if isinstance(nested, dict) else {})
    return pick({**members, **server, **model}, _FIELDS)
