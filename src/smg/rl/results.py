"""What the control plane answers with, as values. Reading them off the wire is `replies`' work."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Worker:
    """One engine behind the gateway. Data-parallel ranks that share an address are one worker here.

    `id` names it in `RL.call`, `base_url` is where control calls go. `tp_size`, `dp_size` and `pp_size` are None when
    the engine did not report them. `health` is the registry's status: pending, ready, not_ready, failed or draining.
    `weight_version` was read when the worker registered and does not follow refits. `capabilities` describes the kind
    of engine (`pause_modes`, `update_from`, `abort`, `flush_cache`, `sleep_wake`, `reports_weight_version`, and
    `source`: where that is known from); the gateway does not check calls against it.
    """

    id: str
    url: str
    base_url: str
    engine: str
    engine_version: str | None
    model_id: str | None
    worker_type: str
    connection_mode: str
    tp_size: int | None
    dp_size: int | None
    pp_size: int | None
    dp_ranks: int
    role: str | None
    health: str
    weight_version: str | None
    labels: dict[str, str]
    capabilities: dict[str, Any]


@dataclass(frozen=True)
class CallResult:
    """What one engine answered: its own HTTP `status`, and its `body` as JSON or else as a text.

    `latency_ms` is the time from sending the engine its request to having read its answer. A status of 400 or more is
    an answer like any other: whoever calls has to look.
    """

    worker_id: str
    url: str
    status: int
    latency_ms: float
    body: Any
    # Kept beside the fields, which are those of the wire contract.
    _truncated: InitVar[bool] = False

    def __post_init__(self, _truncated: bool) -> None:
        self.__dict__["body_truncated"] = _truncated

    @property
    def body_truncated(self) -> bool:
        """Whether the gateway cut the body, of which it hands on the first MiB as a text."""
        return bool(self.__dict__["body_truncated"])


@dataclass(frozen=True, slots=True)
class FanoutFailure:
    """A worker that did not answer a fan-out with 2xx.

    `error` is upstream_error (the engine answered, with `status`, and its answer is among the results),
    upstream_unreachable, upstream_timeout or unsupported_connection_mode. `status` is None unless the engine answered.
    """

    worker_id: str
    url: str
    status: int | None
    error: str
    message: str


@dataclass(frozen=True, slots=True)
class FanoutResult:
    """The report of one fan-out.

    `results` holds every engine that answered, whatever its status, by worker id; `failed` every worker without a 2xx.
    An engine that answered with an error is in both. `total` counts the targets, `succeeded` those with a 2xx.
    """

    results: dict[str, CallResult]
    failed: list[FanoutFailure]
    total: int
    succeeded: int
