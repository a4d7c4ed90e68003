"""vLLM's dialect, with the development routes that pause it, put it to sleep, and change its weights.

The version a refit names is visible at `/weight_info` and in `system_fingerprint`; the real engine says less about it.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from smg.sim.dialect import (
    TEXT,
    TRANSCRIPTIONS,
    Answer,
    Control,
    Dialect,
    Route,
    SimError,
    as_json,
    exposition,
    healthy,
    models,
    quoted,
    rerank,
)
from smg.sim.machine import PauseMode
from smg.sim.scheduler import Sequence

VERSION = "0.32.0"

_PAUSES = ("abort", "wait", "keep")
_MEMORY_TAGS = {"weights", "kv_cache"}


# --- what it is and how busy


def _version(_: Control) -> Answer:
    return as_json({"version": VERSION})


def _load(control: Control) -> Answer:
    return as_json({"server_load": len(control.machine.scheduler.live())})


def _metrics(control: Control) -> Answer:
    machine, scheduler = control.machine, control.machine.scheduler
    return exposition(
        machine.options.model,
        [
            ("vllm:num_requests_running", "gauge", "Requests that run.", len(scheduler.running)),
            ("vllm:num_requests_waiting", "gauge", "Requests that wait.", len(scheduler.waiting)),
            ("vllm:kv_cache_usage_perc", "gauge", "Share of the KV cache in use, 1 = all.", machine.kv_usage),
            ("vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked up.", scheduler.prompt_tokens),
            ("vllm:prefix_cache_hits_total", "counter", "Prompt tokens from the cache.", scheduler.cached_tokens),
            ("vllm:prompt_tokens_total", "counter", "Prompt tokens taken in.", scheduler.prompt_tokens),
            ("vllm:generation_tokens_total", "counter", "Tokens generated.", scheduler.generated_tokens),
        ],
    )


# --- pause and sleep


def _start_pause(control: Control) -> bool:
    mode = control.param("mode", "abort")
    if mode not in _PAUSES:
        raise SimError(400, f"mode must be one of {', '.join(_PAUSES)}", "mode")
    if control.flag("wait_for_inflight_requests", default=False):
        mode = "wait"
    control.machine.pause(cast("PauseMode", mode), control.now)
    return mode == "wait"


def _paused(control: Control) -> Answer:
    if control.param("mode", "abort") != "keep" and control.flag("clear_cache", default=True):
        control.machine.flush_cache()
    return as_json({"status": "paused"})


def _resume(control: Control) -> Answer:
    control.machine.resume(control.now)
    return as_json({"status": "resumed"})


def _is_paused(control: Control) -> Answer:
    return as_json({"is_paused": control.machine.stopped})


def _abort(control: Control) -> Answer:
    ids = control.fields().get("request_ids")
    machine = control.machine
    if ids:
        aborted = sum([machine.abort_requests(str(rid), control.now) for rid in ids])
    else:
        aborted = machine.abort_all(control.now)
    return as_json({"status": "aborted", "aborted": aborted})


def _sleep(control: Control) -> Answer:
    level = control.param("level", "1")
    if level not in ("0", "1", "2"):
        raise SimError(400, "level must be 0, 1 or 2", "level")
    machine = control.machine
    if control.param("mode", "abort") == "abort":
        machine.abort_all(control.now)
    # Level 0 only stops the scheduler; the memory stays.
    machine.sleep(_MEMORY_TAGS if level != "0" else {"scheduling"}, control.now)
    return Answer(200, b"", TEXT)


def _wake_up(control: Control) -> Answer:
    tags = set(control.params().get("tags", ()))
    control.machine.wake(tags or set(control.machine.asleep), control.now)
    return Answer(200, b"", TEXT)


def _is_sleeping(control: Control) -> Answer:
    return as_json({"is_sleeping": bool(control.machine.asleep)})


def _reset_prefix_cache(control: Control) -> Answer:
    control.machine.flush_cache()
    return Answer(200, b"", TEXT)


# --- weights


def _collective_rpc(control: Control) -> Answer:
    fields = control.fields()
    method = fields.get("method")
    if not isinstance(method, str):
        raise SimError(400, "Missing 'method' in request body", "method")
    if "weight" in method:
        kwargs = fields.get("kwargs")
        control.machine.load_weights(_version_in(kwargs) if isinstance(kwargs, dict) else None)
    return as_json({"results": [None]})


def _init_transfer(control: Control) -> Answer:
    if control.fields().get("init_info") is None:
        raise SimError(400, "Missing 'init_info' in request body", "init_info")
    control.machine.update_groups.add("weight_transfer")
    return as_json({"message": "Weight transfer initialized"})


def _start_update(_: Control) -> Answer:
    return as_json({"message": "Weight update started"})


def _update_weights(control: Control) -> Answer:
    info = control.fields().get("update_info")
    if info is None:
        raise SimError(400, "Missing 'update_info' in request body", "update_info")
    control.machine.load_weights(_version_in(info) if isinstance(info, dict) else None)
    return as_json({"message": "Weights updated"})


def _finish_update(control: Control) -> Answer:
    version = _version_in(control.fields(required=False))
    if version is not None:
        control.machine.name_weights(version)
    return as_json({"message": "Weight update finished"})


def _update_version(control: Control) -> Answer:
    fields = control.fields()
    if "new_version" not in fields:
        raise SimError(400, "new_version is required", "new_version")
    version = str(fields["new_version"])
    control.machine.name_weights(version)
    return as_json({"success": True, "new_version": version})


def _weight_info(control: Control) -> Answer:
    return as_json({"weight_version": control.machine.weight_version})


def _world_size(control: Control) -> Answer:
    return as_json({"world_size": control.machine.options.dp_size if control.flag("include_dp", default=True) else 1})


def _version_in(fields: dict[str, Any]) -> str | None:
    version = fields.get("weight_version")
    return None if version is None else str(version)


# --- how it answers


def _error(error: SimError) -> bytes:
    kind = {400: "BadRequestError", 404: "NotFoundError"}.get(error.status, "InternalServerError")
    return msgspec.json.encode(
        {"error": {"message": error.message, "type": kind, "param": error.param, "code": error.status}}
    )


def _fingerprint(version: str) -> bytes:
    """The `system_fingerprint` member that names the weights."""
    return b',"system_fingerprint":%b' % quoted(f"sim-{version}")


def _choice_extra(sequence: Sequence) -> bytes:
    matched = sequence.output.matched
    return b',"stop_reason":%b' % (b"null" if sequence.ended != "stop" or matched is None else quoted(matched))


VLLM = Dialect(
    owned_by="vllm",
    inference={
        "/v1/chat/completions": "chat",
        "/v1/completions": "completions",
        "/v1/embeddings": "embeddings",
        "/v1/rerank": "rerank",
        "/v2/rerank": "rerank",
        "/rerank": "rerank",
        "/classify": "classify",
        "/v1/classify": "classify",
        "/v1/decisions": "decisions",
        "/v1/audio/transcriptions": TRANSCRIPTIONS,
        "/v1/responses": "responses",
        "/v1/messages": "messages",
        "/v1/messages/count_tokens": "count_tokens",
    },
    control={
        ("GET", "/health"): Route(healthy),
        ("GET", "/ping"): Route(healthy),
        ("GET", "/v1/models"): models("vllm"),
        ("GET", "/version"): Route(_version),
        ("GET", "/load"): Route(_load),
        ("GET", "/metrics"): Route(_metrics),
        ("POST", "/pause"): Route(_paused, _start_pause),
        ("POST", "/resume"): Route(_resume),
        ("GET", "/is_paused"): Route(_is_paused),
        ("POST", "/abort_requests"): Route(_abort),
        ("POST", "/sleep"): Route(_sleep),
        ("POST", "/wake_up"): Route(_wake_up),
        ("GET", "/is_sleeping"): Route(_is_sleeping),
        ("POST", "/reset_prefix_cache"): Route(_reset_prefix_cache),
        ("POST", "/collective_rpc"): Route(_collective_rpc),
        ("POST", "/init_weight_transfer_engine"): Route(_init_transfer),
        ("POST", "/start_weight_update"): Route(_start_update),
        ("POST", "/update_weights"): Route(_update_weights),
        ("POST", "/finish_weight_update"): Route(_finish_update),
        ("POST", "/update_weight_version"): Route(_update_version),
        ("GET", "/weight_info"): Route(_weight_info),
        ("GET", "/get_world_size"): Route(_world_size),
    },
    error=_error,
    unauthorized=b'{"error":"Unauthorized"}',
    needs_key=lambda path: path.startswith("/v1"),
    checks_model=True,
    answer_extra=_fingerprint,
    chunk_extra=_fingerprint,
    choice_extra=_choice_extra,
    rerank=rerank,
    realtime="/v1/realtime",
)
