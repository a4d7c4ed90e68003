"""What sets one engine's HTTP apart from another's, as data: routes, error format, extra members of answers.

Dialects (`sglang`, `vllm`, `openai`) fill in a `Dialect`; their control routes are plain functions from a `Control` to
an `Answer`. Carrying answers out, and waiting where a route says so, is the shell's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import msgspec

from smg.sim.machine import Machine
from smg.sim.scheduler import Sequence

JSON = b"application/json"
# The one kind of inference route whose body is a form.
TRANSCRIPTIONS = "transcriptions"
TEXT = b"text/plain; charset=utf-8"
EXPOSITION = b"text/plain; version=0.0.4; charset=utf-8"


class SimError(Exception):
    """A request the engine refuses. `param` names the field at fault where there is one."""

    def __init__(self, status: int, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    body: bytes = b""
    content_type: bytes = JSON


def as_json(value: object, status: int = 200) -> Answer:
    """An answer of JSON."""
    return Answer(status, msgspec.json.encode(value))


@dataclass(frozen=True, slots=True)
class Control:
    """One call of a control route. `now` is the engine's clock, `wall` the time since 1970, both in seconds."""

    machine: Machine
    query: str
    body: bytes
    now: float
    wall: float

    def params(self) -> dict[str, list[str]]:
        """The query's parameters."""
        return parse_qs(self.query)

    def param(self, name: str, default: str = "") -> str:
        return self.params().get(name, [default])[0]

    def flag(self, name: str, *, default: bool) -> bool:
        """A boolean parameter, as FastAPI reads it."""
        return self.param(name, str(default)).lower() in ("1", "true", "on", "yes", "t", "y")

    def fields(self, *, required: bool = True) -> dict[str, Any]:
        """The body's JSON object. Raises SimError 400 when there is none, unless it may be missing."""
        if not self.body and not required:
            return {}
        try:
            value = msgspec.json.decode(self.body)
        except msgspec.DecodeError as error:
            raise SimError(400, f"the body must be a JSON object: {error}") from error
        if not isinstance(value, dict):
            raise SimError(400, "the body must be a JSON object")
        return value


class Route(NamedTuple):
    """A control route.

    `prepare` acts first and says whether `run` must wait until nothing runs any more; with `holds` new requests wait
    meanwhile, so that this moment comes.
    """

    run: Callable[[Control], Answer]
    prepare: Callable[[Control], bool] | None = None
    holds: bool = False


Routes = Mapping[tuple[str, str], Route]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One engine's ways.

    `inference` maps paths of POST routes to the kinds that `requests` reads. `owned_by` is what `/v1/models` says;
    `error` renders an error body; `needs_key` tells whether a path asks for the API key. `checks_model` engines refuse
    models they do not serve. `answer_extra`, `chunk_extra` and `choice_extra` are members added to whole answers (given
    the weight version), to streamed chunks, and to ended choices; each begins with its comma. `realtime` is the path of
    realtime sessions, empty if there are none.
    """

    owned_by: str
    inference: Mapping[str, str]
    control: Routes
    error: Callable[[SimError], bytes]
    unauthorized: bytes
    needs_key: Callable[[str], bool]
    checks_model: bool
    answer_extra: Callable[[str], bytes]
    chunk_extra: Callable[[str], bytes]
    choice_extra: Callable[[Sequence], bytes]
    rerank: Callable[[RerankResult], bytes]
    not_found: bytes = b'{"detail":"Not Found"}'
    wrong_method: bytes = b'{"detail":"Method Not Allowed"}'
    realtime: str = ""


class RerankResult(NamedTuple):
    """Documents by falling score: (index, score) pairs. `documents` are the texts, None when not asked for."""

    id: str
    model: str
    ranked: list[tuple[int, float]]
    documents: list[str] | None
    prompt_tokens: int
    elapsed_secs: float


def models(owned_by: str) -> Route:
    """`GET /v1/models`: the one model there is."""

    def run(control: Control) -> Answer:
        options = control.machine.options
        card = {
            "id": options.model,
            "object": "model",
            "created": 1_700_000_000,
            "owned_by": owned_by,
            "root": control.machine.model_path,
            "parent": None,
            "max_model_len": options.context_tokens,
        }
        return as_json({"object": "list", "data": [card]})

    return Route(run)


def healthy(_: Control) -> Answer:
    """The health routes: up as long as there is a process; faults make them fail."""
    return Answer(200, b"", TEXT)


def exposition(model: str, rows: Iterable[tuple[str, str, str, float]]) -> Answer:
    """Prometheus text: (name, type, help, value) rows, all labelled with the model's name."""
    label = quoted(model).decode()
    lines = [
        f"# HELP {name} {text}\n# TYPE {name} {kind}\n{name}{{model_name={label}}} {value:.10g}\n"
        for name, kind, text, value in rows
    ]
    return Answer(200, "".join(lines).encode(), EXPOSITION)


def quoted(text: str) -> bytes:
    """A JSON string."""
    return msgspec.json.encode(text)


def rerank(result: RerankResult) -> bytes:
    """Cohere's shape, which OpenAI-compatible servers share."""
    return msgspec.json.encode(
        {
            "id": result.id,
            "model": result.model,
            "usage": {"prompt_tokens": result.prompt_tokens, "total_tokens": result.prompt_tokens},
            "results": [
                {
                    "index": index,
                    "document": {"text": result.documents[index]} if result.documents else None,
                    "relevance_score": score,
                }
                for index, score in result.ranked
            ],
        }
    )
