"""The shapes of what the gateway itself answers, for its description alone: handlers make plain rows.

A member that may be left out is `UnsetType`; one that may be null says so.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from smg.control.rl.refusals import STATUSES
from smg.control.rl.routes import PROTOCOL_VERSION
from smg.engines.load import Scalar
from smg.fleet.spec import HealthSpec, HttpPoolSpec, OverloadSpec, ResilienceSpec
from smg.fleet.worker import ConnectionMode, WorkerType
from smg.protocol.openapi.shapes import Schema
from smg.services.jobs import JobType

WorkerStatus = Literal["pending", "ready", "not_ready", "failed", "draining"]

# --- probes


class Ready(Struct):
    status: Literal["ready"]
    healthy_workers: int
    total_workers: int


class NotReady(Struct):
    status: Literal["not ready"]
    reason: str


# --- models


class ListedModel(Struct):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(Struct):
    object: Literal["list"]
    data: list[ListedModel]


class TokenizerList(Struct):
    tokenizers: list[Any]


# --- load


class RankLoadRow(Struct, kw_only=True):
    """The load of one data-parallel rank. A number that its engine does not report is 0."""

    dp_rank: int
    num_running_reqs: int
    num_waiting_reqs: int
    num_waiting_uncached_tokens: int
    num_total_reqs: int
    num_used_tokens: int
    max_total_num_tokens: int
    token_usage: float
    gen_throughput: float
    cache_hit_rate: float
    utilization: float
    max_running_requests: int
    memory: dict[str, Scalar] | UnsetType = UNSET
    queues: dict[str, Scalar] | UnsetType = UNSET
    disagg: dict[str, Scalar] | UnsetType = UNSET


class WorkerLoadRow(RankLoadRow, kw_only=True):
    """The load of one data-parallel rank of a worker."""

    worker: str
    worker_type: WorkerType


class AggregateLoad(Struct):
    total_running_reqs: int
    total_waiting_reqs: int
    total_reqs: int
    avg_token_usage: float
    avg_throughput: float
    avg_utilization: float


class Loads(Struct):
    """The last reports of the engines. `aggregate` is there if there is a report."""

    timestamp: str
    version: str
    dp_rank_count: int
    loads: list[WorkerLoadRow]
    aggregate: AggregateLoad | UnsetType = UNSET


class EngineLoad(Struct):
    timestamp: str
    dp_rank_count: int
    loads: list[RankLoadRow]


# --- the worker API


class ModelCardRow(Struct):
    id: str
    model_type: list[str]
    aliases: list[str] | UnsetType = UNSET
    display_name: str | UnsetType = UNSET
    context_length: int | UnsetType = UNSET
    tokenizer_path: str | UnsetType = UNSET
    chat_template: str | UnsetType = UNSET
    tool_parser: str | UnsetType = UNSET
    reasoning_parser: str | UnsetType = UNSET
    hf_model_type: str | UnsetType = UNSET
    architectures: list[str] | UnsetType = UNSET


class JobRow(Struct):
    """The record of a job; `timestamp` is in Unix seconds."""

    job_type: JobType
    worker_url: str
    status: Literal["pending", "processing", "failed"]
    message: str | None
    timestamp: int


class WorkerRow(Struct, kw_only=True):
    """One worker. What is not set is left out, and a key is never shown."""

    id: str
    url: str
    worker_type: WorkerType
    connection_mode: ConnectionMode
    runtime_type: str
    labels: dict[str, str]
    priority: int
    cost: float
    max_connection_attempts: int
    is_healthy: bool
    status: WorkerStatus
    load: int
    http2: bool
    model_id: str | UnsetType = UNSET
    models: list[ModelCardRow] | UnsetType = UNSET
    bootstrap_port: int | UnsetType = UNSET
    dp_base_url: str | UnsetType = UNSET
    dp_rank: int | UnsetType = UNSET
    dp_size: int | UnsetType = UNSET
    health: HealthSpec | UnsetType = UNSET
    overload: OverloadSpec | UnsetType = UNSET
    http_pool: HttpPoolSpec | UnsetType = UNSET
    resilience: ResilienceSpec | UnsetType = UNSET
    kv_connector: str | UnsetType = UNSET
    kv_engine_id: str | UnsetType = UNSET
    kv_role: str | UnsetType = UNSET
    engine_load: EngineLoad | UnsetType = UNSET
    pd_pairing: str | UnsetType = UNSET
    job_status: JobRow | UnsetType = UNSET


class WorkerCounts(Struct):
    prefill_count: int
    decode_count: int
    regular_count: int


class WorkerList(Struct):
    workers: list[WorkerRow]
    total: int
    stats: WorkerCounts


class Accepted(Struct):
    """A job that was accepted. `url` and `location` are told of a new worker."""

    status: Literal["accepted"]
    worker_id: str
    message: str
    url: str | UnsetType = UNSET
    location: str | UnsetType = UNSET


class WorkerRefusal(Struct):
    error: str
    code: Literal[
        "BAD_REQUEST",
        "WORKER_NOT_FOUND",
        "WORKER_ALREADY_EXISTS",
        "WORKER_CREATE_IN_PROGRESS",
        "INTERNAL_SERVER_ERROR",
    ]


# --- calls to the whole fleet


class FailedCall(Struct):
    worker: str
    error: str


class _Called(Struct, kw_only=True):
    status: Literal["success", "partial_success"]
    message: str
    total_workers: int
    successful: list[str] | UnsetType = UNSET
    failed: list[FailedCall] | UnsetType = UNSET


class Flushed(_Called, kw_only=True):
    """What came of emptying the caches. The lists are there if a call failed."""

    workers_flushed: int
    total_http_workers: int
    total_grpc_workers: int
    total_zmq_workers_skipped: int


class Profiled(_Called, kw_only=True):
    """What came of starting or stopping profilers. The lists are there if a call failed."""

    workers_profiled: int


class NotProfiled(Struct):
    status: Literal["error"]
    message: str
    workers_profiled: int
    total_workers: int


# --- the RL control plane


class CapabilitiesRow(Struct):
    source: Literal["static", "label"]
    pause_modes: list[str]
    update_from: list[str]
    abort: bool
    flush_cache: bool
    sleep_wake: bool
    reports_weight_version: bool


class EngineRow(Struct):
    """An engine as a trainer sees it."""

    id: str
    url: str
    base_url: str
    engine: str
    engine_version: str | None
    model_id: str | None
    worker_type: WorkerType
    connection_mode: ConnectionMode
    tp_size: int | None
    dp_size: int | None
    pp_size: int | None
    dp_ranks: int
    role: str | None
    health: WorkerStatus
    weight_version: str | None
    labels: dict[str, str]
    capabilities: CapabilitiesRow


class EngineList(Struct):
    protocol_version: int
    workers: list[EngineRow]
    total: int


class EngineAnswer(Struct):
    """What one engine answered. `body` is its JSON as it came, or whatever else it said as a text."""

    worker_id: str
    url: str
    status: int
    latency_ms: int
    body: Any
    body_truncated: bool | UnsetType = UNSET


class FailedEngine(Struct):
    """A call that did not do what was asked; further members depend on the code."""

    worker_id: str
    url: str
    error: str
    message: str


class FanOut(Struct):
    """What came of a call to many engines: `results` by worker id."""

    results: dict[str, EngineAnswer]
    failed: list[FailedEngine]
    total: int
    succeeded: int


class ControlRefusal(Struct):
    """A call that was refused, or could not be made; further members depend on the code."""

    error: str
    message: str


OVERLAYS: dict[type, dict[str, Schema]] = {
    EngineList: {"protocol_version": {"const": PROTOCOL_VERSION}},
    ControlRefusal: {"error": {"enum": list(STATUSES)}},
    FailedEngine: {"error": {"enum": [*STATUSES, "upstream_error"]}},
}
