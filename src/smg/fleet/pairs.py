"""Placing requests on prefill/decode pairs: the prefill policy chooses first, then the decode policy among partners.

Only prefill workers with an available partner are candidates, so that neither choice can lead nowhere. The two legs
have policy instances of their own: what one caches says nothing of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smg.errors import PlacementError
from smg.fleet.hints import Hints
from smg.fleet.pairing import partners
from smg.fleet.placement import Placement
from smg.fleet.policies.base import Policy
from smg.fleet.policy_book import Policies
from smg.fleet.registry import Registry
from smg.fleet.worker import Worker


class PairSelector:
    """Places requests on pairs, with the interface of `Selector`."""

    def __init__(
        self, registry: Registry, prefill_policies: Policies, decode_policies: Policies, now: Callable[[], float]
    ) -> None:
        self._registry = registry
        self._prefill_policies = prefill_policies
        self._decode_policies = decode_policies
        self._now = now

    def policy(self, model: str | None) -> Policy:
        """The policy whose needs decide what is read of a request: prefill's, unless only decode's reads text."""
        prefill, decode = self._prefill_policies.of(model), self._decode_policies.of(model)
        return decode if decode.reads_text and not prefill.reads_text else prefill

    def can_place(self, model: str | None, besides: Worker | None = None) -> bool:
        """Whether a pair (without one worker) could take a request for the model now."""
        prefills, decodes = self._legs(model, () if besides is None else (besides,))
        return any(partners(prefill, decodes) for prefill in prefills)

    def place(self, model: str | None, hints: Hints, avoid: Sequence[Worker] = ()) -> Placement:
        """A pair for a request.

        Raises PlacementError: `model_not_found`, `no_available_workers` naming the leg that is missing, or
        `no_compatible_pd_pair` when both legs are there and none fits another.
        """
        if model is not None and not self._registry.snapshot.serving(model):
            raise PlacementError("model_not_found", f"no worker serves the model '{model}'")
        prefills, decodes = self._legs(model, avoid)
        for leg, workers in (("prefill", prefills), ("decode", decodes)):
            if not workers:
                raise PlacementError("no_available_workers", f"no {leg} worker for the model '{model}' is available")
        paired = [prefill for prefill in prefills if partners(prefill, decodes)]
        if not paired:
            raise PlacementError("no_compatible_pd_pair", "no prefill worker fits any decode worker")
        prefill = self._prefill_policies.of(model).select(paired, hints)
        decode = None
        if prefill is not None:
            decode = self._decode_policies.of(model).select(partners(prefill, decodes), hints)
        if prefill is None or decode is None:
            raise PlacementError("no_available_workers", f"the policy selects no pair for the model '{model}'")
        return Placement(decode, prefill)

    def lease(self, placement: Placement, hints: Hints) -> None:  # noqa: ARG002  pairs have no sticky sessions
        """Count a request as load of both legs, from here until `release`."""
        placement.worker.load += 1
        if placement.prefill is not None:
            placement.prefill.load += 1

    def release(self, placement: Placement, hints: Hints) -> None:  # noqa: ARG002  as above
        """The request is over."""
        placement.worker.load -= 1
        if placement.prefill is not None:
            placement.prefill.load -= 1

    def _legs(self, model: str | None, avoid: Sequence[Worker]) -> tuple[list[Worker], list[Worker]]:
        """The available prefill and decode workers; those to avoid only if a leg has nobody else."""
        now = self._now()
        snapshot = self._registry.snapshot
        workers = snapshot.workers if model is None else snapshot.serving(model)
        free = [w for w in workers if w.connection_mode == "http" and w.available(now)]
        legs = []
        for role in ("prefill", "decode"):
            able = [worker for worker in free if worker.worker_type == role]
            legs.append([worker for worker in able if worker not in avoid] or able)
        return legs[0], legs[1]
