"""Where a request goes: a worker, or the two halves of a prefill/decode pair; and who decides it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from smg.fleet.hints import Hints
from smg.fleet.worker import Worker


class Placement(NamedTuple):
    """`worker` answers the client; `prefill`, if there is one, fills the cache for it."""

    worker: Worker
    prefill: Worker | None = None


class Needs(Protocol):
    """What has to be read of a request before it can be placed; see `Policy`."""

    @property
    def reads_text(self) -> bool:
        """Whether the prompt's text or tokens are needed."""

    @property
    def reads_keys(self) -> bool:
        """Whether routing keys are, and what else the headers say of the caller."""


class Placer(Protocol):
    """Who places requests: on single workers (`selection.py`), or on pairs (`pairs.py`). Models are canonical names,
    None stands for a request that names none.
    """

    def policy(self, model: str | None) -> Needs:
        """What the policy, or the policies together, have to know of a request."""

    def can_place(self, model: str | None, besides: Worker | None = None) -> bool:
        """Whether anybody (besides one worker) could take a request for the model now."""

    def place(self, model: str | None, hints: Hints, avoid: Sequence[Worker] = ()) -> Placement:
        """Where a request goes; workers to avoid are chosen only if there is nobody else. Raises PlacementError."""

    def lease(self, placement: Placement, hints: Hints) -> None:
        """Count a request as load of the worker that answers it, until `release`.

        A prefill worker is done earlier, and its load is counted by who sends to it (`serving/upstreams/`). Raises
        PlacementError, and counts nothing, if the placement no longer holds.
        """

    def release(self, placement: Placement, hints: Hints) -> None:
        """The request is over."""
