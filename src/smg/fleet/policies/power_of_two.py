"""`power_of_two`: two candidates at random, the less loaded of them.

Less loaded means the lower expected wait, or fewer requests in flight when neither reports or when the
operator prefers that measure. The formula's assumptions are fixed; the least_load policy has the flags that
tune them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from smg.fleet.expected_wait import ExpectedWait, fewest_in_flight
from smg.fleet.hints import Hints
from smg.fleet.policies.base import Policy, PolicyContext
from smg.fleet.worker import Worker


@dataclass(frozen=True, slots=True)
class PowerOfTwoOptions:
    """`requests` and `least_requests` both compare the requests in flight through this gateway."""

    power_of_two_load_metric: Literal["expected_wait", "requests", "least_requests"] = "expected_wait"


class PowerOfTwo(Policy):
    """Keeps an entry per reporting worker (see `ExpectedWait`)."""

    name: ClassVar[str] = "power_of_two"
    options: ClassVar[type] = PowerOfTwoOptions

    def __init__(self, ctx: PolicyContext, options: PowerOfTwoOptions | None = None) -> None:
        options = options or PowerOfTwoOptions()
        self._rng = ctx.rng
        self._waits = ExpectedWait()
        self._lighter = self._waits.least if options.power_of_two_load_metric == "expected_wait" else fewest_in_flight

    def select(self, workers: Sequence[Worker], hints: Hints) -> Worker:  # noqa: ARG002 - looks at load alone
        """Draw two different workers and take the lighter one."""
        count = len(workers)
        if count == 1:
            return workers[0]
        rng = self._rng
        first = int(rng.random() * count)
        second = int(rng.random() * (count - 1))
        if second >= first:
            second += 1
        return self._lighter((workers[first], workers[second]), rng)

    def forget(self, url: str) -> None:
        """Drop a removed worker's last report."""
        self._waits.forget(url)
