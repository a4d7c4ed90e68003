"""`passthrough`: the first candidate, always. For a single worker, or a balancer behind one address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from smg.fleet.hints import Hints
from smg.fleet.policies.base import NoOptions, Policy, PolicyContext
from smg.fleet.worker import Worker


class Passthrough(Policy):
    """Keeps only whether the operator was warned."""

    name: ClassVar[str] = "passthrough"

    def __init__(self, ctx: PolicyContext, options: NoOptions | None = None) -> None:  # noqa: ARG002 - the contract
        self._warn = ctx.warn
        self._warned = False

    def select(self, workers: Sequence[Worker], hints: Hints) -> Worker:  # noqa: ARG002 - looks at nothing
        """Take the first worker, warning once if others go idle."""
        if len(workers) > 1 and not self._warned:
            self._warned = True
            self._warn("the passthrough policy uses the first available worker only; the others stay idle")
        return workers[0]
