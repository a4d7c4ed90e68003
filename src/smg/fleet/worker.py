"""A worker as the gateway knows it: what was asked for, what was discovered, and how it is doing now.

`WorkerSpec` and `ModelCard` are what a registration says and are never changed; a `Worker` is one registered
engine (or one data-parallel rank of it) with the counters that requests move. Who may change a worker's
status is the registry's business (`registry.py`); what its breaker does is `breaker.py`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Literal

from smg.engines.labels import GENERATION_TYPES
from smg.fleet.statuses import DEFAULT_RULES, StatusRules

if TYPE_CHECKING:
    from smg.engines.load import RankLoad
    from smg.fleet.breaker import Breaker
    from smg.fleet.spec import WorkerSpec

WorkerType = Literal["regular", "prefill", "decode", "encode"]
ConnectionMode = Literal["http", "grpc", "zmq"]


class Status(Enum):
    """The life of a worker, in the words of the worker API."""

    PENDING = "pending"
    READY = "ready"
    NOT_READY = "not_ready"
    FAILED = "failed"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True)
class ModelCard:
    """One model that a worker serves: its canonical id and what is known about it.

    `model_type` names what the model can be asked for; `context_length` is in tokens.
    """

    id: str
    aliases: tuple[str, ...] = ()
    context_length: int | None = None
    model_type: tuple[str, ...] = GENERATION_TYPES
    display_name: str | None = None
    tokenizer_path: str | None = None
    chat_template: str | None = None
    tool_parser: str | None = None
    reasoning_parser: str | None = None
    hf_model_type: str | None = None
    architectures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What an engine last said of itself; sums, and the mean of `token_usage`, are over its data-parallel `ranks`.

    None is what it does not say. `received_at` is in Unix seconds.
    """

    waiting_requests: int = 0
    waiting_uncached_tokens: int | None = None
    token_usage: float | None = None
    throughput_tokens_per_sec: float | None = None
    max_running_requests: int | None = None
    received_at: float = 0.0
    ranks: tuple[RankLoad, ...] = ()


@dataclass(slots=True, eq=False)
class Worker:
    """One routable engine. Compared by identity: a re-registered URL is another worker.

    `url` is the registered URL (with `@rank` for a data-parallel rank) and what clients see; `base_url` is
    the address that calls go to. `load` counts requests in flight through this gateway, until their last body
    byte; `dispatched_tokens` what was sent to it since its last `report`, which is another object with every
    poll. `overloaded` keeps requests from it while others can take them. `labels` are the discovered ones with
    those of `spec` laid over them. `revision` grows with every change of the registration.
    """

    id: str
    url: str
    base_url: str
    breaker: Breaker
    models: tuple[ModelCard, ...] = ()
    worker_type: WorkerType = "regular"
    connection_mode: ConnectionMode = "http"
    http2: bool = False
    runtime: str = "generic"
    labels: dict[str, str] = field(default_factory=dict)
    priority: int = 50
    cost: float = 1.0
    api_key: str | None = field(default=None, repr=False)
    status: Status = Status.PENDING
    revision: int = 0
    load: int = 0
    dispatched_tokens: int = 0
    report: LoadReport | None = None
    overloaded: bool = False
    dp_rank: int | None = None
    dp_size: int | None = None
    bootstrap_port: int | None = None
    spec: WorkerSpec | None = field(default=None, repr=False)
    statuses: StatusRules = DEFAULT_RULES

    @property
    def model_id(self) -> str | None:
        """The first card's model, or None for a worker that serves any."""
        return self.models[0].id if self.models else None

    def serviceable(self, now: float) -> bool:
        """Whether the worker is in a state to serve: ready, its breaker not open."""
        return self.status is Status.READY and self.breaker.admits(now)

    def available(self, now: float) -> bool:
        """Whether the worker may get a new request: serviceable, and not overloaded."""
        return self.status is Status.READY and not self.overloaded and self.breaker.admits(now)
