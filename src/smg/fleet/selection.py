"""Which worker gets a request: the model's workers, narrowed by filters, then the policy's choice among them.

`FILTERS` is the list of what may be chosen; a new reason to leave a worker out is one more function in it. Routes that
not every worker can serve have a selector of their own, whose list begins with another filter. A worker that already
failed this request is avoided under every policy, as long as another one is there.

Filtering a large fleet for every request would cost more than everything else about it, so who is left is kept until
something changes: a registration or a status (the registry tells), a breaker or an overload flag (whoever moves one
calls `recheck`). Workers whose breaker is open are looked at each time, since time alone brings them back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from smg.engines.providers import FLEET_LACKS, provider_for
from smg.errors import PlacementError
from smg.fleet.breaker import State
from smg.fleet.expected_wait import WaitTuning
from smg.fleet.hints import Hints
from smg.fleet.placement import Placement
from smg.fleet.policies.base import Policy
from smg.fleet.registry import Change, Registry
from smg.fleet.sticky import StickySessions
from smg.fleet.worker import Worker

Filter = Callable[[Sequence[Worker], float], Sequence[Worker]]


def regular_http(workers: Sequence[Worker], now: float) -> Sequence[Worker]:  # noqa: ARG001  same shape as its peers
    """Workers that one HTTP call serves whole."""
    return [w for w in workers if w.worker_type == "regular" and w.connection_mode == "http"]


def fleet_http(workers: Sequence[Worker], now: float) -> Sequence[Worker]:
    """The same without external providers, who have the OpenAI API and no routes beyond it."""
    return [w for w in regular_http(workers, now) if w.runtime != "external"]


def prefill_http(workers: Sequence[Worker], now: float) -> Sequence[Worker]:  # noqa: ARG001  the same
    """Workers that read prompts for others, and can answer what is about a prompt alone."""
    return [w for w in workers if w.worker_type == "prefill" and w.connection_mode == "http"]


def speaks(api: str) -> Filter:
    """A filter for workers that one HTTP call serves whole, and that have an API, by its name in metrics."""

    def narrow(workers: Sequence[Worker], now: float) -> Sequence[Worker]:
        return [w for w in regular_http(workers, now) if api not in _lacks(w)]

    return narrow


def _lacks(worker: Worker) -> frozenset[str]:
    if worker.runtime != "external":
        return FLEET_LACKS
    return provider_for(worker.base_url, worker.spec.provider if worker.spec is not None else None).lacks


def unranked(workers: Sequence[Worker], now: float) -> Sequence[Worker]:  # noqa: ARG001  the same
    """Workers that are no data-parallel rank: a rank is named in a JSON body, and nowhere else."""
    return [w for w in workers if w.dp_rank is None]


def available(workers: Sequence[Worker], now: float) -> Sequence[Worker]:
    """Ready, not overloaded, breaker not open."""
    return [w for w in workers if w.available(now)]


FILTERS: tuple[Filter, ...] = (regular_http, available)

# Policies that make their own use of routing keys; sticky sessions stay out of their way.
READ_KEYS_THEMSELVES = frozenset({"consistent_hashing", "manual"})

MEAN_PREFILL_TOKENS = WaitTuning().mean_prefill_tokens
"""What a request whose prompt was not counted adds to a worker's dispatched tokens, unless an option says otherwise."""


class PolicyBook(Protocol):
    """Which policy places the requests of which model."""

    def of(self, model: str | None) -> Policy:
        """The policy for requests of a canonical model, None for those that name none."""


class _Roster:
    """Those of `workers` who are candidates. When nobody is left out that is the very same tuple, so that what policies
    keep for a list of candidates stays valid. `broken` are those who wait for their breaker.
    """

    __slots__ = ("broken", "candidates", "workers")

    def __init__(self, workers: tuple[Worker, ...], filters: Sequence[Filter], now: float) -> None:
        narrowed: Sequence[Worker] = workers
        for narrow in filters:
            narrowed = narrow(narrowed, now)
        self.workers = workers
        self.candidates = workers if len(narrowed) == len(workers) else tuple(narrowed)
        self.broken = [worker for worker in workers if worker.breaker.state is State.OPEN]

    def is_current(self, now: float) -> bool:
        """Whether the candidates still stand. Nobody is turned away on memory alone."""
        if self.broken and any(worker.breaker.admits(now) for worker in self.broken):
            return False
        return bool(self.candidates)


class Selector:
    """Places requests on workers.

    `mean_prefill_tokens` stand for a prompt of unknown length. A request that is shed because of overload is told to
    come back after `shed_retry_secs`, the time in which the next reports arrive; `on_shed` hears of the stage. The
    first of `filters` leave the workers that can serve such requests at all, as many as there are codes in `incapable`:
    each is for the case that its filter leaves none. `unavailable` is the code when those who can may not now.
    """

    def __init__(
        self,
        registry: Registry,
        policies: PolicyBook,
        sessions: StickySessions | None,
        now: Callable[[], float],
        *,
        mean_prefill_tokens: int = MEAN_PREFILL_TOKENS,
        shed_retry_secs: int = 0,
        on_shed: Callable[[str], None] = lambda _stage: None,
        filters: Sequence[Filter] = FILTERS,
        incapable: Sequence[str] = ("no_available_workers",),
        unavailable: str = "no_available_workers",
    ) -> None:
        self._registry = registry
        self._policies = policies
        self._sessions = sessions
        self._now = now
        self._mean_prefill_tokens = mean_prefill_tokens
        self._shed_retry_secs = shed_retry_secs
        self._on_shed = on_shed
        self._filters = tuple(filters)
        self._incapable = tuple(incapable)
        self._unavailable = unavailable
        # By the identity of the snapshot's tuple, which the roster holds on to.
        self._rosters: dict[int, _Roster] = {}
        registry.subscribe(self._follow)

    def policy(self, model: str | None) -> Policy:
        """The policy that places this model's requests."""
        return self._policies.of(model)

    def can_place(self, model: str | None, besides: Worker | None = None) -> bool:
        """Whether anybody (besides one worker) could take a request for the model now."""
        candidates = self._candidates(self._registry.snapshot.serving(model), self._now())
        return len(candidates) > 1 or (len(candidates) == 1 and candidates[0] is not besides)

    def place(self, model: str | None, hints: Hints, avoid: Sequence[Worker] = ()) -> Placement:
        """The worker for a request; `model` is canonical, None for a request that names none.

        Raises PlacementError: `model_not_found` when nobody serves the model, `worker_overload_protection_shed` when
        those who do are all overloaded and nothing else is wrong with them, the selector's own code when none of them
        can serve such requests, otherwise `no_available_workers` when they cannot take it or the policy selects none.
        """
        workers = self._registry.snapshot.serving(model)
        if not workers:
            if model is None:
                raise PlacementError("no_available_workers", "no worker is registered")
            raise PlacementError("model_not_found", f"no worker serves the model '{model}'")
        now = self._now()
        worker = self._choose(model, self._candidates(workers, now), hints, avoid)
        if worker is not None and not worker.available(now):  # changed without a word
            self.recheck()
            worker = self._choose(model, self._candidates(workers, now), hints, avoid)
        if worker is None:
            raise self._refusal(model, workers, now)
        return Placement(worker)

    def lease(self, placement: Placement, hints: Hints) -> None:
        """Count a request as load of its worker, from here until `release`; called right before it is sent.

        Raises PlacementError, and counts nothing, if the worker became overloaded since it was chosen.
        """
        worker = placement.worker
        if worker.overloaded:
            raise self._shed("dispatch", f"worker '{worker.url}' became overloaded before dispatch")
        worker.load += 1
        tokens = hints.tokens
        worker.dispatched_tokens += len(tokens) if tokens else self._mean_prefill_tokens
        if self._sessions is not None and hints.session is not None:
            self._sessions.enter(hints.session, worker)

    def release(self, placement: Placement, hints: Hints) -> None:
        """The request is over: its last byte is on its way, or it ended otherwise."""
        worker = placement.worker
        worker.load -= 1
        if self._sessions is not None and hints.session is not None:
            self._sessions.leave(hints.session, worker)

    def recheck(self) -> None:
        """A breaker or an overload flag has moved: who is available is worked out anew."""
        self._rosters.clear()

    def _follow(self, _change: Change) -> None:
        self._rosters.clear()

    def _candidates(self, workers: tuple[Worker, ...], now: float) -> tuple[Worker, ...]:
        roster = self._rosters.get(id(workers))
        if roster is None or not roster.is_current(now):
            roster = self._rosters[id(workers)] = _Roster(workers, self._filters, now)
        return roster.candidates

    def _choose(
        self, model: str | None, candidates: Sequence[Worker], hints: Hints, avoid: Sequence[Worker]
    ) -> Worker | None:
        if avoid and len(candidates) > 1:
            candidates = [w for w in candidates if w not in avoid] or candidates
        if not candidates:
            return None
        policy = self._policies.of(model)
        if self._sessions is None or hints.session is None or policy.name in READ_KEYS_THEMSELVES:
            return policy.select(candidates, hints)
        return self._sessions.place(hints.session, candidates, lambda workers: policy.select(workers, hints))

    def _refusal(self, model: str | None, workers: Sequence[Worker], now: float) -> PlacementError:
        """Why nobody was selected."""
        wanted = "any model" if model is None else f"the model '{model}'"
        eligible = workers
        for narrow, code in zip(self._filters, self._incapable, strict=False):
            eligible = narrow(eligible, now)
            if not eligible:
                return PlacementError(code, f"no worker for {wanted} can serve such requests")
        if all(w.overloaded and w.serviceable(now) for w in eligible):
            return self._shed("selection", f"every worker for {wanted} is overloaded")
        return PlacementError(self._unavailable, f"no worker for {wanted} is available")

    def _shed(self, stage: str, message: str) -> PlacementError:
        self._on_shed(stage)
        return PlacementError("worker_overload_protection_shed", message, retry_after_secs=self._shed_retry_secs)
