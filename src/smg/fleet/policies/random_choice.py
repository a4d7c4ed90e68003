"""`random`: every candidate with the same chance, whatever it is doing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from smg.fleet.hints import Hints
from smg.fleet.policies.base import NoOptions, Policy, PolicyContext, uniform
from smg.fleet.worker import Worker


class RandomChoice(Policy):
    """Keeps nothing."""

    name: ClassVar[str] = "random"

    def __init__(self, ctx: PolicyContext, options: NoOptions | None = None) -> None:  # noqa: ARG002 - the contract
        self._rng = ctx.rng

    def select(self, workers: Sequence[Worker], hints: Hints) -> Worker:  # noqa: ARG002 - looks at nothing
        """Draw one."""
        return uniform(workers, self._rng)
