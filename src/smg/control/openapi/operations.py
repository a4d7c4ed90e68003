"""The table of the routes that the gateway answers itself, or has engines answer beside requests."""

from __future__ import annotations

from typing import Final

from smg.control.openapi import answers
from smg.control.openapi.answers import (
    Accepted,
    ControlRefusal,
    EngineAnswer,
    EngineList,
    EngineRow,
    FanOut,
    Flushed,
    Loads,
    ModelList,
    NotProfiled,
    NotReady,
    Profiled,
    Ready,
    TokenizerList,
    WorkerList,
    WorkerRefusal,
    WorkerRow,
)
from smg.fleet.spec import WorkerPatch, WorkerSpec
from smg.fleet.worker import ModelCard
from smg.protocol.openapi.operation import (
    ANY_TEXT,
    ANY_VALUE,
    ANYTHING,
    JSON,
    TEXT,
    Answer,
    Body,
    Operation,
    Parameter,
)
from smg.protocol.openapi.shapes import Schema
from smg.protocol.rules import NOT_BLANK

_PROBES: Final = "Probes"
_MODELS: Final = "Models"
_WORKERS: Final = "Workers"
_FLEET: Final = "Fleet"
_RL: Final = "RL control plane"

_ALIVE: Final = Answer(200, "The process is up.", {TEXT: ANY_TEXT})
_ENGINES_OWN: Final[Schema] = {"title": "The engine's"}
_OF_MODEL: Final = (Parameter("model", "query", "Only workers that serve this model, which may be an alias."),)

# --- questions that one worker answers

_ASKING: Final = (
    "no_workers",
    "call_upstream_connection_failed",
    "call_upstream_request_error",
    "call_upstream_timeout",
    "read_response_body_failed",
    "upstream_response_too_large",
)


def _passed_on(name: str, summary: str) -> Operation:
    answers = (
        Answer(200, "The engine's answer.", {JSON: _ENGINES_OWN}),
        Answer("default", "The engine's answer, whatever its status."),
    )
    return Operation(name, summary, _PROBES, answers, _ASKING, relayed={JSON: _ENGINES_OWN, ANYTHING: _ENGINES_OWN})


# --- the worker API

_ID: Final = (Parameter("id", "path", "The worker's id.", {"type": "string", "format": "uuid"}, required=True),)
_REJECTED: Final = Answer(400, "The request is not what this route takes; the message says why.", {JSON: WorkerRefusal})
_NOBODY: Final = Answer(404, "`WORKER_NOT_FOUND`.", {JSON: WorkerRefusal})
_TAKEN: Final = Answer(409, "`WORKER_ALREADY_EXISTS`, `WORKER_CREATE_IN_PROGRESS`.", {JSON: WorkerRefusal})
_FULL: Final = Answer(500, "`INTERNAL_SERVER_ERROR`: the queue of jobs is full.", {JSON: WorkerRefusal})
_QUEUED: Final = Answer(202, "It will be done.", {JSON: Accepted})
_CREATED: Final = Answer(202, "It will be registered.", {JSON: Accepted}, {"Location": "Where the worker will be."})
_SPEC: Final = Body(
    {JSON: WorkerSpec}, description="Members that are not known are ignored. `runtime` is an older name."
)

# --- profilers

_PROFILE: Final = Body(
    {
        JSON: {
            "type": "object",
            "additionalProperties": True,
            "properties": {"url": {"description": "The one worker to call."}},
        }
    },
    required=False,
    description="What to hand on to the engines; without `url`, to all of them.",
)
_PROFILED: Final = (
    Answer(200, "Every engine did it.", {JSON: Profiled}),
    Answer(206, "Some engines did not do it, or none.", {JSON: Profiled}),
    Answer(400, "The body is no JSON object.", {JSON: NotProfiled}),
    Answer(404, "There is no such worker.", {JSON: NotProfiled}),
)

# --- the RL control plane

_WORKER: Final = (Parameter("id", "path", "The worker's id.", required=True),)
_ENGINE_PATH: Final = Parameter(
    "path",
    "path",
    "The engine's own path: one to four segments, with slashes between them, of letters, digits, `.`, `_` and `-`.",
    {"type": "string", "pattern": "^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+){0,3}$"},
    required=True,
)
_SELECTOR: Final = Parameter(
    "selector",
    "query",
    "Which workers: terms such as `engine=sglang`, `model in (a, b)`, with commas between them.",
    {"type": "string", "pattern": NOT_BLANK},
    required=True,
)
_ENGINE_BODY: Final = Body({ANYTHING: ANY_VALUE}, required=False, description="What the engine takes, as it is.")
_UNKNOWN: Final = Answer(404, "`worker_not_found`.", {JSON: ControlRefusal})
_UNSUITABLE: Final = (
    Answer(400, "`invalid_engine_path`.", {JSON: ControlRefusal}),
    _UNKNOWN,
    Answer(422, "`unsupported_connection_mode`.", {JSON: ControlRefusal}),
    Answer(502, "`upstream_unreachable`.", {JSON: ControlRefusal}),
    Answer(504, "`upstream_timeout`.", {JSON: ControlRefusal}),
)
_CALLED: Final = (
    Answer(200, "The engine's answer, in an envelope."),
    Answer("default", "The engine's answer, in an envelope and with its own status."),
)
_FANNED_OUT: Final = (
    Answer(200, "Every engine did it.", {JSON: FanOut}),
    Answer(207, "Some engines did not do it.", {JSON: FanOut}),
    Answer(
        400,
        "`invalid_engine_path`, `selector_required`, `invalid_selector`, `no_workers_match`; in plain text, that there "
        "is more than one selector.",
        {JSON: ControlRefusal, TEXT: ANY_TEXT},
    ),
)


def _call_one(name: str, summary: str, body: Body | None) -> Operation:
    answers = (*_CALLED, *_UNSUITABLE)
    parameters = (*_WORKER, _ENGINE_PATH)
    return Operation(name, summary, _RL, answers, (), parameters, body, _HANDED_ON, relayed={JSON: EngineAnswer})


def _call_all(name: str, summary: str, body: Body | None) -> Operation:
    return Operation(name, summary, _RL, _FANNED_OUT, (), (_ENGINE_PATH, _SELECTOR), body, _HANDED_ON)


_HANDED_ON: Final = "The rest of the query and the body reach the engine as they came, once."

OPERATIONS: Final[dict[tuple[str, str], Operation]] = {
    ("GET", "/openapi.json"): Operation(
        "describe",
        "This document",
        _PROBES,
        (Answer(200, "The description of this gateway's routes.", {JSON: {"type": "object"}}),),
    ),
    ("GET", "/liveness"): Operation("checkLiveness", "Is the process up?", _PROBES, (_ALIVE,)),
    ("GET", "/health"): Operation("checkHealth", "The same", _PROBES, (_ALIVE,)),
    ("GET", "/readiness"): Operation(
        "checkReadiness",
        "Can requests be served?",
        _PROBES,
        (
            Answer(200, "There are workers.", {JSON: Ready}),
            Answer(503, "There are not enough workers, or the gateway is leaving.", {JSON: NotReady}),
        ),
    ),
    ("GET", "/health_generate"): _passed_on("checkGeneration", "Does an engine generate?"),
    ("GET", "/get_server_info"): _passed_on("showServer", "What an engine says of itself"),
    ("GET", "/get_model_info"): _passed_on("showModel", "What an engine says of its model"),
    ("GET", "/v1/models"): Operation(
        "listModels",
        "List the models",
        _MODELS,
        (
            Answer(200, "The models of registered engines, or of the provider whose key is shown.", {JSON: ModelList}),
            Answer(503, "There is no model.", {TEXT: ANY_TEXT}),
        ),
        parameters=(Parameter("X-API-Key", "header", "The caller's own key of an external provider."),),
        description="No key is asked for. One that is not the gateway's is taken for that of a provider, which is then "
        "asked instead.",
    ),
    ("GET", "/v1/tokenizers"): Operation(
        "listTokenizers",
        "List the tokenizers that are loaded",
        _MODELS,
        (Answer(200, "The list.", {JSON: TokenizerList}),),
    ),
    ("GET", "/loads"): Operation(
        "listLoads",
        "What engines last reported of their load",
        _FLEET,
        (Answer(200, "It.", {JSON: Loads}),),
        (),
        _OF_MODEL,
    ),
    ("GET", "/get_loads"): Operation(
        "listLoadsForAdministrators", "The same", _FLEET, (Answer(200, "It.", {JSON: Loads}),), (), _OF_MODEL
    ),
    ("GET", "/engine_metrics"): Operation(
        "scrapeEngines",
        "The metrics of all engines in one text",
        _FLEET,
        (
            Answer(200, "Metrics in Prometheus' format, told apart by the label `worker_addr`.", {TEXT: ANY_TEXT}),
            Answer(500, "There is no ready worker, or none of them answers.", {TEXT: ANY_TEXT}),
        ),
    ),
    ("POST", "/flush_cache"): Operation(
        "flushCaches",
        "Empty the prefix caches of all engines",
        _FLEET,
        (
            Answer(200, "Every engine did it.", {JSON: Flushed}),
            Answer(206, "Some engines did not do it, or none.", {JSON: Flushed}),
        ),
    ),
    ("POST", "/start_profile"): Operation(
        "startProfiles", "Start the profilers of engines", _FLEET, _PROFILED, body=_PROFILE
    ),
    ("POST", "/stop_profile"): Operation(
        "stopProfiles", "Stop the profilers of engines", _FLEET, _PROFILED, body=_PROFILE
    ),
    ("GET", "/workers"): Operation(
        "listWorkers", "List the workers", _WORKERS, (Answer(200, "The list.", {JSON: WorkerList}),), (), _OF_MODEL
    ),
    ("POST", "/workers"): Operation(
        "addWorker", "Add a worker", _WORKERS, (_CREATED, _REJECTED, _TAKEN, _FULL), body=_SPEC
    ),
    ("GET", "/workers/{id}"): Operation(
        "showWorker",
        "Show a worker",
        _WORKERS,
        (Answer(200, "The worker, with its job while there is one.", {JSON: WorkerRow}), _REJECTED, _NOBODY),
        (),
        _ID,
    ),
    ("PATCH", "/workers/{id}"): Operation(
        "changeWorker",
        "Change a worker in place",
        _WORKERS,
        (_QUEUED, _REJECTED, _NOBODY),
        (),
        _ID,
        Body({JSON: WorkerPatch}),
    ),
    ("PUT", "/workers/{id}"): Operation(
        "replaceWorker",
        "Register a worker anew",
        _WORKERS,
        (_QUEUED, _REJECTED, _NOBODY, _FULL),
        (),
        _ID,
        _SPEC,
        "The `url` must be the same.",
    ),
    ("DELETE", "/workers/{id}"): Operation(
        "removeWorker", "Remove a worker", _WORKERS, (_QUEUED, _REJECTED, _NOBODY), (), _ID
    ),
    ("GET", "/v1/rl/workers"): Operation(
        "listEngines", "List the engines", _RL, (Answer(200, "The list.", {JSON: EngineList}),)
    ),
    ("GET", "/v1/rl/workers/{id}"): Operation(
        "showEngine",
        "Show the engine of a worker",
        _RL,
        (Answer(200, "The engine.", {JSON: EngineRow}), _UNKNOWN),
        (),
        _WORKER,
    ),
    ("GET", "/v1/rl/workers/{id}/engine/{*path}"): _call_one("askEngine", "Ask one engine", None),
    ("POST", "/v1/rl/workers/{id}/engine/{*path}"): _call_one("callEngine", "Call one engine", _ENGINE_BODY),
    ("GET", "/v1/rl/engine/{*path}"): _call_all("askEngines", "Ask every engine that a selector names", None),
    ("POST", "/v1/rl/engine/{*path}"): _call_all(
        "callEngines", "Call every engine that a selector names", _ENGINE_BODY
    ),
}
"""Descriptions by method and path."""

_PORT: Final = (
    "(:(0{0,4}[1-9]|0{0,3}[1-9][0-9]|0{0,2}[1-9][0-9]{2}|0?[1-9][0-9]{3}"
    "|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?"
)
_SEGMENT: Final = "[A-Za-z0-9._~!$&'()*+,;=:@%-]"
_REST: Final = _SEGMENT.replace("-]", "/-]*")
_ADDRESS: Final = (
    rf"^((https?|grpcs?)://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]){_PORT}(/{_REST})?|ipc:///+{_SEGMENT}{_REST})$"
)
_POSITIVE: Final = {"exclusiveMinimum": 0}
_LABELS: Final[Schema] = {
    "properties": {
        "realtime": {"type": "string", "enum": ["true", "false"]},
        "dp_size": {"type": "string", "pattern": "^[0-9]*[1-9][0-9]*$"},
    }
}

OVERLAYS: Final[dict[type, dict[str, Schema]]] = {
    WorkerSpec: {
        "url": {"pattern": _ADDRESS, "description": "The worker's address. IPv6 hosts stand in brackets."},
        "cost": _POSITIVE,
        "labels": _LABELS,
    },
    WorkerPatch: {"cost": _POSITIVE, "labels": _LABELS},
    ModelCard: {"id": {"minLength": 1}},
    **answers.OVERLAYS,
}
"""Rules that stand in code, by type and member."""
