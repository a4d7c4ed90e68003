"""How often a request is attempted, and how long to wait before another attempt."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryOptions:
    """`max_attempts` includes the first; the cap holds before the jitter."""

    max_attempts: int = 5
    initial_backoff_ms: float = 50.0
    max_backoff_ms: float = 30_000.0
    backoff_multiplier: float = 1.5
    jitter_factor: float = 0.2

    def delay_secs(self, retry: int, rng: random.Random) -> float:
        """The wait before retry number `retry`, counted from 0."""
        try:
            backoff_ms = min(self.initial_backoff_ms * self.backoff_multiplier**retry, self.max_backoff_ms)
        except OverflowError:  # beyond what a float holds is beyond the cap
            backoff_ms = self.max_backoff_ms
        return backoff_ms * (1 + rng.uniform(-self.jitter_factor, self.jitter_factor)) / 1000
