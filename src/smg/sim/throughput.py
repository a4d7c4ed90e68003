"""How many tokens a second an engine generates, as it reports it itself."""

from __future__ import annotations


class Throughput:
    """Tokens a second: those of the last full second, or of the present one when that has more already."""

    __slots__ = ("_now", "_previous", "_second")

    def __init__(self) -> None:
        self._second = 0
        self._now = 0
        self._previous = 0

    def add(self, tokens: int, now: float) -> None:
        self._roll(int(now))
        self._now += tokens

    def rate(self, now: float) -> float:
        self._roll(int(now))
        return float(max(self._now, self._previous))

    def _roll(self, second: int) -> None:
        if second != self._second:
            self._previous = self._now if second == self._second + 1 else 0
            self._now = 0
            self._second = second
