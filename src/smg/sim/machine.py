"""The engine behind a dialect: model, scheduler, cache, weights, and what control routes do to them.

Every operation is a plain call that takes the time; nothing here waits. Operations that an engine carries out only when
nothing runs (a refit of an engine that was not paused, `wait` pauses) are for the shell to delay: see `idle`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

from smg.sim.options import SimOptions
from smg.sim.output import Sampling, Writer, splice
from smg.sim.prefix_cache import PrefixCache
from smg.sim.prompt import BLOCK_TOKENS, Prompt
from smg.sim.scheduler import Pace, Progress, Scheduler, Sequence

PauseMode = Literal["abort", "retract", "keep", "wait"]


class Machine:
    """One simulated engine, apart from its network side."""

    def __init__(self, options: SimOptions) -> None:
        self.options = options
        self.cache = PrefixCache(options.kv_capacity_tokens // BLOCK_TOKENS)
        self.scheduler = Scheduler(
            Pace(
                _inverse(options.tokens_per_second),
                _inverse(options.prefill_tokens_per_second),
                options.ttft_ms / 1000,
            ),
            options.max_running_requests,
            options.kv_capacity_tokens,
            self.cache,
        )
        self.weight_version = options.weight_version
        self.model_path = options.model
        self.weight_updates = 0
        self.update_groups: set[str] = set()
        self.paused: PauseMode | None = None
        self.asleep: set[str] = set()
        self.requests = 0
        self.seen: Counter[str] = Counter()
        self._writer = Writer(options.model, options.seed)
        self._stops: set[str] = set()
        self._held = False

    # --- requests

    def sequence(
        self, rid: str, prompt: Prompt, sampling: Sampling, on_progress: Progress, *, choice: int = 0, rank: int = 0
    ) -> Sequence:
        """A new sequence, to be submitted to the scheduler."""
        output = self._writer.write(prompt, sampling, choice, self.weight_version)
        return Sequence(rid, prompt, sampling, output, on_progress, choice=choice, rank=rank)

    def abort_all(self, now: float) -> int:
        """End everything that runs or waits; returns how many."""
        return self._abort(self.scheduler.live(), now)

    def abort_requests(self, rid: str, now: float) -> int:
        """End the sequences of one request (their ids begin with its id); returns how many."""
        return self._abort([s for s in self.scheduler.live() if s.rid.startswith(rid)], now)

    def _abort(self, sequences: list[Sequence], now: float) -> int:
        # Those in line go first: none of them may start only to be ended.
        return sum([self.scheduler.abort(sequence, now) for sequence in reversed(sequences)])

    @property
    def idle(self) -> bool:
        """Whether nothing runs."""
        return not self.scheduler.running

    # --- pause and sleep

    @property
    def stopped(self) -> bool:
        """Whether no token can appear, or no new request can start."""
        return bool(self._stops) or self._held

    def pause(self, mode: PauseMode, now: float) -> None:
        """Stop generating: end what is there, send it back in line, keep it where it is, or let it finish."""
        self.paused = mode
        if mode == "wait":
            if not self._stops and not self._held:
                self._held = True
                self.scheduler.hold()
            return
        self._stop("pause", now, retract=mode == "retract")
        if mode == "abort":
            self.abort_all(now)

    def resume(self, now: float) -> None:
        """Generate again."""
        self.paused = None
        if self._held:
            self._held = False
            self.scheduler.release(now)
        self._go("pause", now)

    def sleep(self, tags: set[str], now: float) -> None:
        """Give up memory: generation stops, and without its memory the cache is empty."""
        self.asleep |= tags
        if tags:
            self._stop("sleep", now)
        if "kv_cache" in tags:
            self.cache.clear()

    def wake(self, tags: set[str], now: float) -> None:
        """Take memory back; generation goes on once all of it is there."""
        self.asleep -= tags
        if not self.asleep:
            self._go("sleep", now)

    def _stop(self, cause: str, now: float, *, retract: bool = False) -> None:
        self._stops.add(cause)
        self.scheduler.freeze(now, retract=retract)

    def _go(self, cause: str, now: float) -> None:
        self._stops.discard(cause)
        if not self._stops:
            self.scheduler.thaw(now)

    # --- weights and cache

    def load_weights(self, version: str | None, *, model_path: str | None = None) -> None:
        """Take new weights. What was generated stays, what comes next is the new version's."""
        self.weight_updates += 1
        if model_path:
            self.model_path = model_path
        if version is not None:
            self.name_weights(version)

    def name_weights(self, version: str) -> None:
        """Set the version alone. To a simulated model the version is its weights."""
        if version == self.weight_version:
            return
        self.weight_version = version
        for s in self.scheduler.live():
            s.output = splice(s.output, self._writer.write(s.prompt, s.sampling, s.choice, version), s.produced)

    def flush_cache(self) -> bool:
        """Empty the prefix cache; refused (False) while something runs on it."""
        if not self.idle:
            return False
        self.cache.clear()
        return True

    # --- figures

    @property
    def cache_hit_rate(self) -> float:
        """The share of all prompt tokens so far that came from the cache."""
        scheduler = self.scheduler
        return scheduler.cached_tokens / scheduler.prompt_tokens if scheduler.prompt_tokens else 0.0

    @property
    def kv_usage(self) -> float:
        """The share of the KV cache that running sequences hold."""
        return min(1.0, self.scheduler.used_tokens / self.scheduler.kv_tokens)

    def state(self, now: float) -> dict[str, Any]:
        """Everything countable, for `GET /sim/state`."""
        scheduler = self.scheduler
        return {
            "engine": self.options.engine,
            "model": self.options.model,
            "model_path": self.model_path,
            "weight_version": self.weight_version,
            "weight_updates": self.weight_updates,
            "update_groups": sorted(self.update_groups),
            "paused": self.paused is not None,
            "pause_mode": self.paused,
            "asleep": sorted(self.asleep),
            "running": len(scheduler.running),
            "waiting": len(scheduler.waiting),
            "requests": self.requests,
            "served": scheduler.served,
            "aborted": scheduler.aborted,
            "retracted": scheduler.retracted,
            "prompt_tokens": scheduler.prompt_tokens,
            "cached_tokens": scheduler.cached_tokens,
            "generated_tokens": scheduler.generated_tokens,
            "used_tokens": scheduler.used_tokens,
            "token_usage": self.kv_usage,
            "gen_throughput": scheduler.throughput.rate(now),
            "cache": {
                "blocks": len(self.cache),
                "capacity_blocks": self.cache.capacity_blocks,
                "block_tokens": BLOCK_TOKENS,
                "hit_blocks": self.cache.hit_blocks,
                "looked_up_blocks": self.cache.looked_up_blocks,
                "evicted_blocks": self.cache.evicted,
                "hit_rate": self.cache_hit_rate,
            },
            "seen": dict(self.seen),
        }


def _inverse(rate: float) -> float:
    return 1 / rate if rate else 0.0
