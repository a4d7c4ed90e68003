"""The objects that hot code counts with: counter, gauge, histogram and summary. Each is one series.

They are plain slotted objects, so that recording costs an attribute update and no lock: one process counts on
one event loop, and a count that a worker thread loses to a race is worth less than a lock per request.
Families (`families.py`) make them and own their labels; `exposition.py` reads them. `recorded` tells whether a
series has anything to show: children are resolved at start-up, yet a series appears with its first record.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from typing import TypeVar

# A summary's quantiles are over so many newest observations: enough to place the 0.99 quantile.
SUMMARY_WINDOW = 512


class Counter:
    """A count that only grows. Hot code may add to `value` itself."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def inc(self, n: float = 1) -> None:
        """Add `n`, which is not negative."""
        self.value += n

    @property
    def recorded(self) -> bool:
        """Whether anything was counted."""
        return self.value != 0


class Gauge:
    """A value that goes up and down. Its methods note that there is something to show, even if it is 0."""

    __slots__ = ("recorded", "value")

    def __init__(self) -> None:
        self.value: float = 0
        self.recorded = False

    def set(self, value: float) -> None:
        """Make the gauge read `value`."""
        self.value = value
        self.recorded = True

    def inc(self, n: float = 1) -> None:
        """Add `n`."""
        self.value += n
        self.recorded = True

    def dec(self, n: float = 1) -> None:
        """Take `n` away."""
        self.value -= n
        self.recorded = True


class Histogram:
    """Observations by size: `counts[i]` are those in `(bounds[i-1], bounds[i]]`, the last item the rest.

    `bounds` ascend and are shared by all series of a family.
    """

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Record one observation, in the unit that the metric's name ends with."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def recorded(self) -> bool:
        """Whether anything was observed."""
        return any(self.counts)


class Summary:
    """A total of observations, and quantiles over the newest `SUMMARY_WINDOW` of them."""

    __slots__ = ("count", "newest", "sum")

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0.0
        self.newest: deque[float] = deque(maxlen=SUMMARY_WINDOW)

    def observe(self, value: float) -> None:
        """Record one observation, in the unit that the metric's name ends with."""
        self.count += 1
        self.sum += value
        self.newest.append(value)

    @property
    def recorded(self) -> bool:
        """Whether anything was observed."""
        return self.count != 0

    def quantiles(self, ranks: Sequence[float]) -> list[float]:
        """The window's value at each of `ranks` (0 smallest, 1 largest); none if nothing was observed."""
        ordered = sorted(self.newest)
        if not ordered:
            return []
        last = len(ordered) - 1
        return [ordered[round(rank * last)] for rank in ranks]


Instrument = Counter | Gauge | Histogram | Summary
# Covariant, so that families of all kinds fit one list of `Family[Instrument]`.
C_co = TypeVar("C_co", bound=Instrument, covariant=True)
