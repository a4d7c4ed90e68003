"""Where a request goes: a worker, or the two halves of a prefill/decode pair; and who decides it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from smg.fleet.hints import Hints
from smg.fleet.policies.base import Policy
from smg.fleet.worker import Worker


class Placement(NamedTuple):
    """`worker` answers the client; `prefill`, if there is one, fills the cache for it."""

    worker: Worker
    prefill: Worker | None = None


class Placer(Protocol):
    """Who places requests: on single workers (`selection.py`), or on pairs (`pairs.py`). Models are canonical names,
    None stands for a request that names none.
    """

    def policy(self, model: str | None) -> Policy:
        """The policy whose needs decide what is read of a request."""

    def can_place(self, model: str | None, besides: Worker | None = None) -> bool:
        """Whether anybody (besides one worker) could take a request for the model now."""

    def place(self, model: str | None, hints: Hints, avoid: Sequence[Worker] = ()) -> Placement:
        """Where a request goes; workers to avoid are chosen only if there is nobody else. Raises PlacementError."""

    def lease(self, placement: Placement, hints: Hints) -> None:
        """Count a request as load until `release`. Raises PlacementError if the placement no longer holds."""

    def release(self, placement: Placement, hints: Hints) -> None:
        """The request is over."""
