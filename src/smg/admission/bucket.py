"""A token bucket on a clock given by the caller."""

from __future__ import annotations


class TokenBucket:
    """Holds up to `capacity` tokens, starts full, and refills continuously at `per_sec`."""

    __slots__ = ("_capacity", "_level", "_per_sec", "_stamp")

    def __init__(self, capacity: float, per_sec: float, now: float) -> None:
        self._capacity = capacity
        self._per_sec = per_sec
        self._level = capacity
        self._stamp = now

    def level(self, now: float) -> float:
        """The tokens at hand."""
        return min(self._capacity, self._level + (now - self._stamp) * self._per_sec)

    def take(self, tokens: float, now: float) -> bool:
        """Take tokens, all or none."""
        level = self.level(now)
        self._stamp = now
        self._level = level - tokens if level >= tokens else level
        return level >= tokens

    def spend(self, tokens: float, now: float) -> None:
        """Take tokens whatever the level, which may fall below zero; a negative number gives some back."""
        self._level = min(self._capacity, self.level(now) - tokens)
        self._stamp = now

    def wait_secs(self, tokens: float, now: float) -> float | None:
        """How long until so many tokens are there; None if they never are."""
        if tokens > self._capacity:
            return None
        return max(0.0, (tokens - self.level(now)) / self._per_sec)
