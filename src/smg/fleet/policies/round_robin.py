"""`round_robin`: the candidates in turn.

Each exact list of candidates has its own turn: a list shortened for one request (a retry without the worker
that failed, say) does not disturb the rotation of all others. A list's first turn is drawn at random, so that
many gateways, or many short-lived lists, do not all begin with the same worker.

Bound: the turns of the 4096 lists used last.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import ClassVar

from smg.fleet.hints import Hints
from smg.fleet.policies.base import NoOptions, Policy, PolicyContext
from smg.fleet.worker import Worker

MAX_LISTS = 4096


class RoundRobin(Policy):
    """Keeps a turn per list of candidates, known by its hash: two lists that collide share a turn."""

    name: ClassVar[str] = "round_robin"

    def __init__(self, ctx: PolicyContext, options: NoOptions | None = None) -> None:  # noqa: ARG002 - the contract
        self._rng = ctx.rng
        self._turns: OrderedDict[int, int] = OrderedDict()

    def select(self, workers: Sequence[Worker], hints: Hints) -> Worker:  # noqa: ARG002 - looks at nothing
        """Take the list's next worker."""
        turns, members = self._turns, hash(tuple(workers))
        turn = turns.get(members)
        if turn is None:
            turn = int(self._rng.random() * len(workers))
            if len(turns) >= MAX_LISTS:
                turns.popitem(last=False)
        else:
            turns.move_to_end(members)
            turn %= len(workers)
        turns[members] = turn + 1
        return workers[turn]

    def forget(self, url: str) -> None:  # noqa: ARG002 - no list survives a removal
        """Start over: every list that matters has just changed."""
        self._turns.clear()

    def sizes(self) -> dict[str, int]:
        """The number of lists with a turn."""
        return {"lists": len(self._turns)}
