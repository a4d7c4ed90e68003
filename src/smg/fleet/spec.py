"""What a caller asks for when it registers or changes a worker: the worker API's bodies, read and checked.

`WorkerSpec` is the body of POST and PUT, `WorkerPatch` that of PATCH. Both are frozen and kept on the worker,
so that the settings of its connections and its breaker can be read where they matter. Unknown fields are
ignored. What is discovered about the engine is not here: `engines/` reads it and the registrar lays the spec
over it.

Every refusal is a `SpecError` whose message names the field.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from smg.fleet.address import AddressError, parse_address
from smg.fleet.worker import ModelCard, WorkerType

RuntimeType = Literal["unspecified", "sglang", "vllm", "trtllm", "mlx", "tokenspeed", "generic", "external"]

_YEAR_SECS = 31_536_000
Secs = Annotated[int, Meta(ge=1, le=_YEAR_SECS)]
Count = Annotated[int, Meta(ge=1, le=2**31)]
Port = Annotated[int, Meta(ge=1, le=65535)]
Priority = Annotated[int, Meta(ge=0, le=2**32 - 1)]
StatusCode = Annotated[int, Meta(ge=100, le=599)]
# A key becomes a header value, so it must be able to stand in one.
ApiKey = Annotated[str, Meta(pattern=r"^[\x20-\x7e]*\Z", max_length=8192)]


class SpecError(ValueError):
    """A worker spec or patch was refused; the message names the field and the rule it broke."""


class HealthSpec(Struct, frozen=True, omit_defaults=True):
    """A worker's own health settings; what is absent follows the gateway's flags."""

    timeout_secs: Secs | None = None
    check_interval_secs: Secs | None = None
    success_threshold: Count | None = None
    failure_threshold: Count | None = None
    disable_health_check: bool | None = None
    drain_settle_secs: Annotated[int, Meta(ge=0, le=_YEAR_SECS)] | None = None


class OverloadSpec(Struct, frozen=True, omit_defaults=True):
    """Overload thresholds; either one turns the protection on for this worker."""

    waiting_requests: Count | None = None
    token_usage: Annotated[float, Meta(gt=0, le=1)] | None = None


class HttpPoolSpec(Struct, frozen=True, omit_defaults=True):
    """Settings of the connections to one worker; `timeout_secs` bounds one exchange."""

    http2: bool | None = None
    pool_max_idle_per_host: Annotated[int, Meta(ge=0, le=2**31)] | None = None
    pool_idle_timeout_secs: Secs | None = None
    timeout_secs: Secs | None = None
    connect_timeout_secs: Secs | None = None


class ResilienceSpec(Struct, frozen=True, omit_defaults=True):
    """A worker's own breaker settings. A status list replaces the gateway's, it does not extend it."""

    cb_failure_threshold: Count | None = None
    cb_success_threshold: Count | None = None
    cb_timeout_secs: Secs | None = None
    cb_window_secs: Secs | None = None
    retryable_status_codes: tuple[StatusCode, ...] | None = None
    capacity_status_codes: tuple[StatusCode, ...] | None = None


class WorkerSpec(Struct, frozen=True, kw_only=True):
    """One worker as it was asked for. `url` is canonical: it has no trailing slash."""

    url: str
    models: tuple[ModelCard, ...] = ()
    worker_type: WorkerType = "regular"
    runtime_type: RuntimeType = "unspecified"
    labels: dict[str, str] = {}
    priority: Priority = 50
    cost: float = 1.0
    api_key: ApiKey | None = None
    provider: str | None = None
    bootstrap_port: Port | None = None
    kv_connector: str | None = None
    kv_engine_id: str | None = None
    kv_role: str | None = None
    dp_size: Count | None = None
    zmq_handshake_address: str | None = None
    health: HealthSpec = HealthSpec()
    overload: OverloadSpec = OverloadSpec()
    http_pool: HttpPoolSpec = HttpPoolSpec()
    resilience: ResilienceSpec = ResilienceSpec()

    def __repr__(self) -> str:  # the generated one would print the key
        return f"WorkerSpec({self.url!r})"


class WorkerPatch(Struct, frozen=True, kw_only=True):
    """What may change without registering anew; labels and health settings are merged, never deleted.

    An empty `api_key` takes the worker's key away.
    """

    priority: Priority | None = None
    cost: float | None = None
    labels: dict[str, str] | None = None
    api_key: ApiKey | None = None
    health: HealthSpec | None = None

    def __repr__(self) -> str:  # the generated one would print the key
        return "WorkerPatch(...)"


def parse_spec(body: bytes) -> WorkerSpec:
    """Read the body of a POST or PUT. Raises SpecError."""
    members = _decode(body)
    if "runtime" in members:  # the older name; the newer one wins
        members.setdefault("runtime_type", members.pop("runtime"))
    return checked_spec(_convert(members, WorkerSpec))


def checked_spec(spec: WorkerSpec) -> WorkerSpec:
    """The spec with its URL in canonical spelling; for one that is not from a body. Raises SpecError."""
    _check_cost(spec.cost)
    _check_cards(spec.models)
    return msgspec.structs.replace(spec, url=_canonical_url(spec.url), api_key=spec.api_key or None)


def parse_patch(body: bytes) -> WorkerPatch:
    """Read the body of a PATCH. Raises SpecError."""
    patch = _convert(_decode(body), WorkerPatch)
    if patch.cost is not None:
        _check_cost(patch.cost)
    return patch


def apply_patch(spec: WorkerSpec, patch: WorkerPatch) -> WorkerSpec:
    """The spec with a patch laid over it."""
    return msgspec.structs.replace(
        spec,
        priority=spec.priority if patch.priority is None else patch.priority,
        cost=spec.cost if patch.cost is None else patch.cost,
        labels={**spec.labels, **(patch.labels or {})},
        api_key=spec.api_key if patch.api_key is None else patch.api_key or None,
        health=_overlay(spec.health, patch.health),
    )


T = TypeVar("T", WorkerSpec, WorkerPatch)
_AT = re.compile(r"^(?P<problem>.*) - at `\$\.?(?P<path>.*)`$", re.DOTALL)


def _decode(body: bytes) -> dict[str, Any]:
    try:
        members = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SpecError(f"the body is not valid JSON: {error}") from None
    if not isinstance(members, dict):
        raise SpecError("the body must be a JSON object")
    labels = members.get("labels")
    if isinstance(labels, dict):
        _check_labels(labels)
    return members


def _convert(members: dict[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(members, kind)
    except msgspec.ValidationError as error:
        located = _AT.match(str(error))
        raise SpecError(f"{located['path']}: {located['problem']}" if located else str(error)) from None


def _is_positive_integer(value: str) -> bool:
    return value.isascii() and value.isdigit() and bool(value.strip("0"))


# Labels that the gateway itself acts on, so that a typing error must not pass unseen.
_LABEL_RULES: dict[str, tuple[Callable[[str], bool], str]] = {
    "realtime": (lambda value: value in {"true", "false"}, '"true" or "false"'),
    "dp_size": (_is_positive_integer, "a positive integer"),
}


def _check_labels(labels: Mapping[str, Any]) -> None:
    for name, value in labels.items():
        if not isinstance(value, str):
            raise SpecError(f"labels.{name}: a label's value is a string")
        rule = _LABEL_RULES.get(name)
        if rule is not None and not rule[0](value):
            raise SpecError(f"labels.{name}: must be {rule[1]}, not {value!r}")


def _canonical_url(url: str) -> str:
    try:
        return parse_address(url).url
    except AddressError as error:
        raise SpecError(f"url: {error}") from None


def _check_cost(cost: float) -> None:
    if not (math.isfinite(cost) and cost > 0):
        raise SpecError(f"cost: must be a finite number above 0, not {cost}")


def _check_cards(cards: tuple[ModelCard, ...]) -> None:
    for position, card in enumerate(cards):
        if not card.id:
            raise SpecError(f"models[{position}].id: must not be empty")


def _overlay(base: HealthSpec, over: HealthSpec | None) -> HealthSpec:
    if over is None:
        return base
    return msgspec.structs.replace(base, **msgspec.to_builtins(over))
