"""Who gets a realtime session: the worker, among those labelled for it, that has the least in flight.

A session lasts long and is never pinned, so the model's policy, routing keys and sticky sessions have no say. What an
engine reports of its queue does not help either: open sessions are not in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import ClassVar

from smg.fleet.expected_wait import lowest
from smg.fleet.hints import Hints
from smg.fleet.policies.base import Policy, PolicyContext
from smg.fleet.selection import regular_http
from smg.fleet.worker import Worker

LABEL = "realtime"
POLICY_NAME = "least_in_flight"


def speaks_realtime(workers: Sequence[Worker], now: float) -> Sequence[Worker]:
    """Workers that one HTTP call serves whole, and whose label says that they have the Realtime API."""
    return [w for w in regular_http(workers, now) if w.labels.get(LABEL) == "true"]


class LeastInFlight(Policy):
    """The worker with the fewest calls and sessions through this gateway; equal ones are drawn from evenly."""

    name: ClassVar[str] = POLICY_NAME

    def __init__(self, ctx: PolicyContext, options: None = None) -> None:  # noqa: ARG002  a policy's constructor
        self._rng: Random = ctx.rng

    def select(self, workers: Sequence[Worker], hints: Hints) -> Worker:  # noqa: ARG002  looks at load alone
        """Take the least loaded one."""
        return lowest(workers, [worker.load for worker in workers], self._rng)

    def forget(self, url: str) -> None:
        """Nothing is kept."""

    def sweep(self, now: float) -> None:
        """Nothing to do."""


class OneForAll:
    """The same policy for every model."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def of(self, model: str | None) -> Policy:  # noqa: ARG002  whatever the model
        """The policy."""
        return self._policy
