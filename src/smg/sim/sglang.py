"""SGLang's dialect: its own routes beside OpenAI's, and the control plane that RL trainers use.

Field names, defaults and refusals follow the engine's server: control routes that take a body want JSON and answer 400
without one, a refit names its weight version, a cache that is in use is not flushed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from smg.sim.dialect import (
    TEXT,
    TRANSCRIPTIONS,
    Answer,
    Control,
    Dialect,
    RerankResult,
    Route,
    SimError,
    as_json,
    exposition,
    healthy,
    models,
    quoted,
)
from smg.sim.load_report import get_load, loads
from smg.sim.machine import PauseMode
from smg.sim.scheduler import Sequence

VERSION = "0.5.15.post1"
EOS_ID = 2

_PAUSES: dict[str, PauseMode] = {"abort": "abort", "retract": "retract", "in_place": "keep"}
_MEMORY_TAGS = {"kv_cache", "weights", "cuda_graph"}
_OPEN_PATHS = frozenset({"/health", "/health_generate", "/metrics"})


# --- what it is


def _server_info(control: Control) -> Answer:
    machine, options = control.machine, control.machine.options
    return as_json(
        {
            "model_path": machine.model_path,
            "tokenizer_path": options.model,
            "served_model_name": options.model,
            "host": options.host,
            "port": options.port,
            "tp_size": 1,
            "dp_size": options.dp_size,
            "pp_size": 1,
            "load_balance_method": "round_robin",
            "disaggregation_mode": "null",
            "is_embedding": False,
            "context_length": options.context_tokens,
            "max_total_num_tokens": options.kv_capacity_tokens,
            "max_running_requests": options.max_running_requests,
            "weight_version": machine.weight_version,
            "version": VERSION,
            "status": "ready",
            "internal_states": [
                {"last_gen_throughput": machine.scheduler.throughput.rate(control.now), "is_paused": machine.stopped}
            ],
        }
    )


def _model_info(control: Control) -> Answer:
    machine = control.machine
    return as_json(
        {
            "model_path": machine.model_path,
            "tokenizer_path": machine.options.model,
            "is_generation": True,
            "preferred_sampling_params": None,
            "weight_version": machine.weight_version,
            "has_image_understanding": False,
            "has_audio_understanding": False,
            "model_type": "sim",
            "architectures": ["SimForCausalLM"],
        }
    )


def _weight_version(control: Control) -> Answer:
    return as_json({"weight_version": control.machine.weight_version})


def _metrics(control: Control) -> Answer:
    machine, scheduler = control.machine, control.machine.scheduler
    rate = scheduler.throughput.rate(control.now)
    return exposition(
        machine.options.model,
        [
            ("sglang:num_running_reqs", "gauge", "Requests that run.", len(scheduler.running)),
            ("sglang:num_queue_reqs", "gauge", "Requests that wait.", len(scheduler.waiting)),
            ("sglang:num_used_tokens", "gauge", "Tokens in the KV cache.", scheduler.used_tokens),
            ("sglang:token_usage", "gauge", "Share of the KV cache in use.", machine.kv_usage),
            ("sglang:gen_throughput", "gauge", "Generated tokens a second.", rate),
            ("sglang:cache_hit_rate", "gauge", "Share of prompt tokens from the cache.", machine.cache_hit_rate),
            ("sglang:prompt_tokens_total", "counter", "Prompt tokens taken in.", scheduler.prompt_tokens),
            ("sglang:generation_tokens_total", "counter", "Tokens generated.", scheduler.generated_tokens),
            ("sglang:num_requests_total", "counter", "Requests taken in.", machine.requests),
        ],
    )


# --- pause, abort, memory


def _pause(control: Control) -> Answer:
    mode = control.fields().get("mode", "abort")
    if mode not in _PAUSES:
        raise SimError(400, f"mode must be one of {', '.join(_PAUSES)}", "mode")
    control.machine.pause(_PAUSES[mode], control.now)
    return as_json({"message": "Generation paused successfully.", "status": "ok"})


def _continue(control: Control) -> Answer:
    control.fields()
    control.machine.resume(control.now)
    return as_json({"message": "Generation continued successfully.", "status": "ok"})


def _abort(control: Control) -> Answer:
    fields = control.fields()
    if fields.get("abort_all"):
        control.machine.abort_all(control.now)
    elif rid := fields.get("rid"):
        control.machine.abort_requests(str(rid), control.now)
    return Answer(200, b"", TEXT)


def _flush(control: Control) -> Answer:
    if control.machine.flush_cache():
        return Answer(200, b"Cache flushed.\n", TEXT)
    return Answer(400, b"The cache is in use by running requests and was not flushed.\n", TEXT)


def _release_memory(control: Control) -> Answer:
    tags = set(control.fields().get("tags") or _MEMORY_TAGS)
    if not control.machine.idle:
        raise SimError(400, "memory can only be released while nothing runs")
    control.machine.sleep(tags, control.now)
    return as_json(None)


def _resume_memory(control: Control) -> Answer:
    control.machine.wake(set(control.fields().get("tags") or _MEMORY_TAGS), control.now)
    return as_json(None)


# --- weights


def _refit(control: Control, fields: dict[str, Any], message: str) -> dict[str, Any]:
    machine = control.machine
    version = fields.get("weight_version")
    if fields.get("flush_cache", True):
        machine.flush_cache()
    paused = len(machine.scheduler.running) if machine.stopped else 0
    machine.load_weights(None if version is None else str(version), model_path=fields.get("model_path"))
    if version is not None:
        message += f" The weight version is {version}."
    return {"success": True, "message": message, "num_paused_requests": paused}


def _drained_first(control: Control) -> bool:
    """A refit waits for running requests, unless they are paused (or it ends them)."""
    if control.fields().get("abort_all_requests"):
        control.machine.abort_all(control.now)
    return not control.machine.stopped


def _update_from_disk(control: Control) -> Answer:
    fields = control.fields()
    if not isinstance(fields.get("model_path"), str):
        raise SimError(400, "model_path is required", "model_path")
    return as_json(_refit(control, fields, "Weights loaded from disk."))


def _update_from_tensor(control: Control) -> Answer:
    fields = control.fields()
    if "serialized_named_tensors" not in fields:
        raise SimError(400, "serialized_named_tensors is required", "serialized_named_tensors")
    return as_json(_refit(control, fields, "Weights loaded from tensors."))


def _update_from_distributed(control: Control) -> Answer:
    fields = control.fields()
    group = fields.get("group_name", "weight_update_group")
    if group not in control.machine.update_groups:
        return as_json({"success": False, "message": f"There is no weight update group {group!r}."}, 400)
    return as_json(_refit(control, fields, "Weights received."))


def _init_group(control: Control) -> Answer:
    control.machine.update_groups.add(str(control.fields().get("group_name", "weight_update_group")))
    return as_json({"success": True, "message": "The weight update group is ready."})


def _destroy_group(control: Control) -> Answer:
    group = str(control.fields().get("group_name", "weight_update_group"))
    known = group in control.machine.update_groups
    control.machine.update_groups.discard(group)
    message = "The weight update group is gone." if known else f"There is no weight update group {group!r}."
    return as_json({"success": known, "message": message}, 200 if known else 400)


def _update_version(control: Control) -> Answer:
    fields = control.fields()
    if "new_version" not in fields:
        raise SimError(400, "new_version is required", "new_version")
    if fields.get("abort_all_requests"):
        control.machine.abort_all(control.now)
    version = str(fields["new_version"])
    control.machine.name_weights(version)
    return as_json({"success": True, "message": f"The weight version is {version}.", "new_version": version})


# --- how it answers


def _error(error: SimError) -> bytes:
    kind = {400: "BadRequest", 404: "NotFound", 503: "ServiceUnavailable"}.get(error.status, "InternalServerError")
    return msgspec.json.encode(
        {"object": "error", "message": error.message, "type": kind, "param": error.param, "code": error.status}
    )


def _choice_extra(sequence: Sequence) -> bytes:
    if sequence.ended != "stop":
        return b',"matched_stop":null'
    matched = sequence.output.matched
    return b',"matched_stop":%b' % (str(EOS_ID).encode() if matched is None else quoted(matched))


def _rerank(result: RerankResult) -> bytes:
    rows = [
        {
            "score": score,
            "document": result.documents[index] if result.documents else None,
            "index": index,
            "meta_info": {
                "id": f"{result.id}-{index}",
                "e2e_latency": result.elapsed_secs,
                "prompt_tokens": result.prompt_tokens,
            },
        }
        for index, score in result.ranked
    ]
    return msgspec.json.encode(rows)


def _both(path: str, route: Route) -> dict[tuple[str, str], Route]:
    return {("GET", path): route, ("POST", path): route}


SGLANG = Dialect(
    owned_by="sglang",
    inference={
        "/v1/chat/completions": "chat",
        "/v1/completions": "completions",
        "/generate": "generate",
        "/v1/embeddings": "embeddings",
        "/v1/rerank": "rerank",
        "/rerank": "rerank",
        "/v1/classify": "classify",
        "/v1/systemone": "systemone",
        "/v1/audio/transcriptions": TRANSCRIPTIONS,
        "/v1/responses": "responses",
        "/v1/messages": "messages",
        "/v1/messages/count_tokens": "count_tokens",
    },
    control={
        ("GET", "/health"): Route(healthy),
        ("GET", "/health_generate"): Route(healthy),
        ("GET", "/v1/models"): models("sglang"),
        ("GET", "/server_info"): Route(_server_info),
        ("GET", "/get_server_info"): Route(_server_info),
        ("GET", "/model_info"): Route(_model_info),
        ("GET", "/get_model_info"): Route(_model_info),
        ("GET", "/get_weight_version"): Route(_weight_version),
        ("GET", "/weight_version"): Route(_weight_version),
        ("GET", "/loads"): Route(loads(VERSION)),
        ("GET", "/v1/loads"): Route(loads(VERSION)),
        ("GET", "/get_load"): Route(get_load),
        ("GET", "/metrics"): Route(_metrics),
        ("POST", "/pause_generation"): Route(_pause),
        ("POST", "/continue_generation"): Route(_continue),
        ("POST", "/abort_request"): Route(_abort),
        **_both("/flush_cache", Route(_flush)),
        **_both("/release_memory_occupation", Route(_release_memory)),
        **_both("/resume_memory_occupation", Route(_resume_memory)),
        ("POST", "/update_weights_from_disk"): Route(_update_from_disk, _drained_first, holds=True),
        ("POST", "/update_weights_from_tensor"): Route(_update_from_tensor, _drained_first, holds=True),
        ("POST", "/update_weights_from_distributed"): Route(_update_from_distributed, _drained_first, holds=True),
        ("POST", "/init_weights_update_group"): Route(_init_group),
        ("POST", "/destroy_weights_update_group"): Route(_destroy_group),
        ("POST", "/update_weight_version"): Route(_update_version),
    },
    error=_error,
    unauthorized=b'{"error":"Unauthorized"}',
    needs_key=lambda path: path not in _OPEN_PATHS,
    checks_model=False,
    answer_extra=lambda version: b',"metadata":{"weight_version":%b}' % quoted(version),
    chunk_extra=lambda version: b"",  # noqa: ARG005  the engine names the version in whole answers only
    choice_extra=_choice_extra,
    rerank=_rerank,
)
