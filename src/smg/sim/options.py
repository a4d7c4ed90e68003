"""What a simulated engine is told at its start, and the defaults.

Rates and times of 0 mean "takes no time": an engine with no rate at all answers at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from smg.sim.faults import Fault

EngineName = Literal["sglang", "vllm", "openai"]
ENGINE_NAMES: tuple[EngineName, ...] = ("sglang", "vllm", "openai")


@dataclass(frozen=True, slots=True)
class SimOptions:
    """One simulated engine. Raises ValueError, naming every problem, when the numbers make no sense.

    `port` 0 takes a free one. `tokens_per_second` is the decode rate of each request, `prefill_tokens_per_second` the
    rate at which the engine as a whole works off uncached prompt tokens, one prompt after the other; `ttft_ms` is added
    before a request's first token. `max_running_requests` and `kv_capacity_tokens` bound what runs at a time, the rest
    waits in line. `output_tokens` is the length of an answer whose request names no limit. `may_crash` lets
    `POST /sim/crash` end the process, which only a process of its own should allow.
    """

    engine: EngineName = "sglang"
    model: str = "sim-model"
    host: str = "127.0.0.1"
    port: int = 0
    tokens_per_second: float = 0.0
    prefill_tokens_per_second: float = 0.0
    ttft_ms: float = 0.0
    max_running_requests: int = 256
    kv_capacity_tokens: int = 1_000_000
    output_tokens: int = 64
    context_tokens: int = 131_072
    dp_size: int = 1
    api_key: str = ""
    seed: int = 0
    weight_version: str = "default"
    faults: tuple[Fault, ...] = ()
    may_crash: bool = False

    def __post_init__(self) -> None:
        problems = [f"{name} must not be negative" for name in _NOT_NEGATIVE if getattr(self, name) < 0]
        problems += [f"{name} must be at least 1" for name in _POSITIVE if getattr(self, name) < 1]
        if self.engine not in ENGINE_NAMES:
            problems.append(f"engine must be one of {', '.join(ENGINE_NAMES)}")
        if not self.model:
            problems.append("model must not be empty")
        if self.port > _MAX_PORT:
            problems.append(f"port must be at most {_MAX_PORT}")
        if problems:
            raise ValueError("; ".join(problems))


_MAX_PORT = 65535
_NOT_NEGATIVE = ("port", "tokens_per_second", "prefill_tokens_per_second", "ttft_ms")
_POSITIVE = ("max_running_requests", "kv_capacity_tokens", "output_tokens", "context_tokens", "dp_size")
