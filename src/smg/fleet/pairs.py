"""Placing requests on prefill/decode pairs: the prefill policy chooses first, then the decode policy among partners.

Only prefill workers with an available partner are candidates, so that neither choice can lead nowhere. The two legs
have policy instances of their own: what one caches says nothing of the other. Sticky sessions stay out of it.

As in `selection.py`, who may be chosen is kept until something changes. Working it out takes a look at every pair of
kinds, not of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from smg.errors import PlacementError
from smg.fleet.breaker import State
from smg.fleet.hints import Hints
from smg.fleet.pairing import Kind, compatible, kind_of
from smg.fleet.placement import Placement
from smg.fleet.policy_book import Policies
from smg.fleet.registry import Change, Registry
from smg.fleet.selection import FILTERS, MEAN_PREFILL_TOKENS, Filter, regular_http
from smg.fleet.worker import Worker, WorkerType

LEGS: tuple[WorkerType, ...] = ("prefill", "decode")
Partners = Mapping[str, Sequence[Worker]]
"""The decode workers that a prefill worker may be paired with, by its id; only of those that have one."""


def http_legs(workers: Sequence[Worker], now: float) -> Sequence[Worker]:  # noqa: ARG001  same shape as its peers
    """Workers that serve one half of a request over HTTP."""
    return [w for w in workers if w.worker_type in LEGS and w.connection_mode == "http"]


# The same reasons to leave a worker out as with single workers, but for what kind of worker it takes.
PAIR_FILTERS: tuple[Filter, ...] = (http_legs, *[narrow for narrow in FILTERS if narrow is not regular_http])


class PairNeeds(NamedTuple):
    """What two policies together have to know of a request."""

    reads_text: bool
    reads_keys: bool


def partners(workers: Sequence[Worker]) -> dict[str, tuple[Worker, ...]]:
    """The partners of each prefill worker, in order; prefill workers of one kind share a tuple."""
    decodes = [(worker, kind_of(worker)) for worker in workers if worker.worker_type == "decode"]
    kinds = {kind for _, kind in decodes}
    found: dict[Kind, tuple[Worker, ...]] = {}
    pairs: dict[str, tuple[Worker, ...]] = {}
    for worker in workers:
        if worker.worker_type != "prefill":
            continue
        kind = kind_of(worker)
        if kind not in found:
            fitting = {other for other in kinds if compatible(kind, other)}
            found[kind] = tuple([decode for decode, other in decodes if other in fitting])
        if found[kind]:
            pairs[worker.id] = found[kind]
    return pairs


class _Roster:
    """Who may be paired among `workers` now. `broken` are those who wait for their breaker."""

    __slots__ = ("broken", "partners", "prefills", "workers")

    def __init__(self, workers: tuple[Worker, ...], now: float) -> None:
        narrowed: Sequence[Worker] = workers
        for narrow in PAIR_FILTERS:
            narrowed = narrow(narrowed, now)
        self.workers = workers
        self.partners: Partners = partners(narrowed)
        self.prefills = tuple([worker for worker in narrowed if worker.id in self.partners])
        self.broken = [worker for worker in workers if worker.breaker.state is State.OPEN]

    def is_current(self, now: float) -> bool:
        """Whether the candidates still stand. Nobody is turned away on memory alone."""
        return bool(self.prefills) and not any(worker.breaker.admits(now) for worker in self.broken)

    def besides(self, avoid: Sequence[Worker]) -> tuple[Sequence[Worker], Partners]:
        """The candidates of both legs without the workers to avoid, as far as somebody else is there."""
        others = {p.id: [d for d in self.partners[p.id] if d not in avoid] for p in self.prefills}
        fresh = [prefill for prefill in self.prefills if prefill not in avoid]
        # Nobody to avoid in either leg; else in the one that can be changed; else whoever is there.
        ways = ([p for p in fresh if others[p.id]], [p for p in self.prefills if others[p.id]], fresh, self.prefills)
        return next(filter(None, ways), ()), {p.id: others[p.id] or self.partners[p.id] for p in self.prefills}


class PairSelector:
    """Places requests on pairs; the options are those of `Selector`."""

    def __init__(
        self,
        registry: Registry,
        prefill_policies: Policies,
        decode_policies: Policies,
        now: Callable[[], float],
        *,
        mean_prefill_tokens: int = MEAN_PREFILL_TOKENS,
        shed_retry_secs: int = 0,
        on_shed: Callable[[str], None] = lambda _stage: None,
    ) -> None:
        self._registry = registry
        self._prefill_policies = prefill_policies
        self._decode_policies = decode_policies
        self._now = now
        self._mean_prefill_tokens = mean_prefill_tokens
        self._shed_retry_secs = shed_retry_secs
        self._on_shed = on_shed
        # By the identity of the snapshot's tuple, which the roster holds on to.
        self._rosters: dict[int, _Roster] = {}
        registry.subscribe(self._follow)

    def policy(self, model: str | None) -> PairNeeds:
        """What the policies of both legs have to know of a request."""
        prefill, decode = self._prefill_policies.of(model), self._decode_policies.of(model)
        return PairNeeds(prefill.reads_text or decode.reads_text, prefill.reads_keys or decode.reads_keys)

    def can_place(self, model: str | None, besides: Worker | None = None) -> bool:
        """Whether a pair (without one worker) could take a request for the model now."""
        roster = self._roster(self._registry.snapshot.serving(model), self._now())
        return any(
            prefill is not besides and any(decode is not besides for decode in roster.partners[prefill.id])
            for prefill in roster.prefills
        )

    def place(self, model: str | None, hints: Hints, avoid: Sequence[Worker] = ()) -> Placement:
        """A pair for a request.

        Raises PlacementError: `model_not_found`, `no_compatible_pd_pair` when both legs are registered and none fits
        another, `worker_overload_protection_shed` when the workers of a leg are all overloaded and nothing else is
        wrong with them, otherwise `no_available_workers` naming the leg that is missing.
        """
        workers = self._registry.snapshot.serving(model)
        if not workers and model is not None:
            raise PlacementError("model_not_found", f"no worker serves the model '{model}'")
        now = self._now()
        pair = self._choose(model, self._roster(workers, now), hints, avoid)
        if pair is not None and not all(worker.available(now) for worker in pair):  # changed without a word
            self.recheck()
            pair = self._choose(model, self._roster(workers, now), hints, avoid)
        if pair is None:
            raise self._refusal(model, workers, now)
        prefill, decode = pair
        return Placement(decode, prefill)

    def lease(self, placement: Placement, hints: Hints) -> None:
        """Count a request as load of the decode worker, from here until `release`; called right before it is sent.

        Raises PlacementError, and counts nothing, if either worker became overloaded since it was chosen.
        """
        legs = [worker for worker in (placement.prefill, placement.worker) if worker is not None]
        for worker in legs:
            if worker.overloaded:
                text = f"the {worker.worker_type} worker '{worker.url}' became overloaded before dispatch"
                raise self._shed("dispatch", text)
        placement.worker.load += 1
        for worker in legs:
            worker.dispatched_tokens += len(hints.tokens) if hints.tokens else self._mean_prefill_tokens

    def release(self, placement: Placement, hints: Hints) -> None:  # noqa: ARG002  pairs have no sticky sessions
        """The request is over: its last byte is on its way, or it ended otherwise."""
        placement.worker.load -= 1

    def recheck(self) -> None:
        """A breaker or an overload flag has moved: who is available is worked out anew."""
        self._rosters.clear()

    def _follow(self, _change: Change) -> None:
        self._rosters.clear()

    def _roster(self, workers: tuple[Worker, ...], now: float) -> _Roster:
        roster = self._rosters.get(id(workers))
        if roster is None or not roster.is_current(now):
            roster = self._rosters[id(workers)] = _Roster(workers, now)
        return roster

    def _choose(
        self, model: str | None, roster: _Roster, hints: Hints, avoid: Sequence[Worker]
    ) -> tuple[Worker, Worker] | None:
        prefills, pairs = roster.besides(avoid) if avoid else (roster.prefills, roster.partners)
        if not prefills:
            return None
        prefill = self._prefill_policies.of(model).select(prefills, hints)
        if prefill is None:
            return None
        decode = self._decode_policies.of(model).select(pairs[prefill.id], hints)
        return None if decode is None else (prefill, decode)

    def _refusal(self, model: str | None, workers: Sequence[Worker], now: float) -> PlacementError:
        """Why there is no pair."""
        wanted = "any model" if model is None else f"the model '{model}'"
        eligible = http_legs(workers, now)
        legs = {leg: [worker for worker in eligible if worker.worker_type == leg] for leg in LEGS}
        for leg, members in legs.items():
            if not members:
                return PlacementError("no_available_workers", f"no {leg} worker for {wanted} is registered")
        if not partners(eligible):
            return PlacementError("no_compatible_pd_pair", f"no prefill worker for {wanted} fits any decode worker")
        for leg, members in legs.items():
            if all(worker.overloaded and worker.serviceable(now) for worker in members):
                return self._shed("selection", f"every {leg} worker for {wanted} is overloaded")
        for leg, members in legs.items():
            if not any(worker.available(now) for worker in members):
                return PlacementError("no_available_workers", f"no {leg} worker for {wanted} is available")
        return PlacementError("no_available_workers", f"no pair of workers for {wanted} can take a request now")

    def _shed(self, stage: str, message: str) -> PlacementError:
        self._on_shed(stage)
        return PlacementError("worker_overload_protection_shed", message, retry_after_secs=self._shed_retry_secs)
