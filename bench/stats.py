"""The arithmetic of a comparison: percentiles, medians of pairs, targets and verdicts."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


def percentile(ordered: Sequence[float], rank: float) -> float:
    """The value below which `rank` per cent of the sorted values lie (nearest rank)."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * rank / 100))]


def quarter_growth(samples: Sequence[float]) -> float:
    """Mean of the last quarter minus mean of the first: what grows shows, what only swings does not."""
    size = max(1, len(samples) // 4)
    return statistics.fmean(samples[-size:]) - statistics.fmean(samples[:size])


@dataclass(frozen=True, slots=True)
class Spread:
    """Several runs of one figure: the median with the extremes around it."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(statistics.median(values), min(values), max(values))


def pair_ratios(ours: Sequence[float], published: Sequence[float]) -> list[float]:
    """One ratio a pair. Pairs run back to back: a slow minute of the machine hits both sides of a ratio."""
    return [mine / theirs for mine, theirs in zip(ours, published, strict=True)]


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on the ratio ours / published, or, with `of_ours`, on our own figure. `or_ours` is a bound on our own
    figure that is enough by itself.
    """

    sign: str  # ">=" or "<="
    bound: float
    of_ours: bool = False
    or_ours: float | None = None

    def met_by(self, value: float) -> bool:
        return self._keeps(value, self.bound)

    def met_by_ours(self, value: float) -> bool:
        """Whether our own figure is enough, whatever the published one."""
        return self.or_ours is not None and self._keeps(value, self.or_ours)

    def _keeps(self, value: float, bound: float) -> bool:
        return value >= bound if self.sign == ">=" else value <= bound
