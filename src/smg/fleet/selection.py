"""Which worker gets a request: the model's workers, narrowed by filters, then the policy's choice among them.

`FILTERS` is the list of what may be chosen; a new reason to leave a worker out is one more function in it. A worker
that already failed this request is avoided under every policy, as long as another one is there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from smg.errors import PlacementError
from smg.fleet.hints import Hints
from smg.fleet.policies.base import Policy
from smg.fleet.registry import Registry
from smg.fleet.sticky import StickySessions
from smg.fleet.worker import Worker

Filter = Callable[[Sequence[Worker], float], Sequence[Worker]]


def available(workers: Sequence[Worker], now: float) -> Sequence[Worker]:
    """Ready, not overloaded, breaker not open."""
    return [worker for worker in workers if worker.available(now)]


def regular_http(workers: Sequence[Worker], now: float) -> Sequence[Worker]:  # noqa: ARG001  same shape as its peers
    """Workers that one HTTP call serves whole."""
    return [w for w in workers if w.worker_type == "regular" and w.connection_mode == "http"]


# Policies that make their own use of routing keys; sticky sessions stay out of their way.
READ_KEYS_THEMSELVES = frozenset({"consistent_hashing", "manual"})

FILTERS: tuple[Filter, ...] = (available,)


class Policies:
    """One policy instance a model, made when its model is first asked for and dropped with its last worker."""

    def __init__(self, make: Callable[[], Policy]) -> None:
        self._make = make
        self._by_model: dict[str | None, Policy] = {}

    def of(self, model: str | None) -> Policy:
        policy = self._by_model.get(model)
        if policy is None:
            policy = self._by_model[model] = self._make()
        return policy

    def forget_worker(self, url: str) -> None:
        for policy in self._by_model.values():
            policy.forget(url)

    def keep_only(self, models: Collection[str]) -> None:
        """Drop the policies of models that nobody serves any more."""
        for model in [m for m in self._by_model if m is not None and m not in models]:
            del self._by_model[model]

    def sweep(self, now: float) -> None:
        for policy in tuple(self._by_model.values()):
            policy.sweep(now)


class Selector:
    """Places requests on workers."""

    def __init__(
        self, registry: Registry, policies: Policies, sessions: StickySessions | None, now: Callable[[], float]
    ) -> None:
        self._registry = registry
        self._policies = policies
        self._sessions = sessions
        self._now = now

    def policy(self, model: str | None) -> Policy:
        """The policy that places this model's requests."""
        return self._policies.of(model)

    def can_place(self, model: str | None, besides: Worker | None = None) -> bool:
        """Whether anybody (besides one worker) could take a request for the model now."""
        now = self._now()
        return any(worker is not besides and worker.available(now) for worker in self._serving(model))

    def place(self, model: str | None, hints: Hints, avoid: Sequence[Worker] = ()) -> Worker:
        """The worker for a request; `model` is canonical, None for a request that names none.

        Raises PlacementError: `model_not_found` when nobody serves the model, `no_available_workers` when those who do
        cannot take it or the policy selects none of them.
        """
        workers = self._serving(model)
        if not workers:
            if model is None:
                raise PlacementError("no_available_workers", "no worker is registered")
            raise PlacementError("model_not_found", f"no worker serves the model '{model}'")
        now = self._now()
        candidates: Sequence[Worker] = workers
        for narrow in FILTERS:
            candidates = narrow(candidates, now)
        if avoid and len(candidates) > 1:
            candidates = [w for w in candidates if w not in avoid] or candidates
        worker = self._choose(model, candidates, hints) if candidates else None
        if worker is None:
            raise PlacementError("no_available_workers", f"no worker for the model '{model}' is available")
        return worker

    def lease(self, worker: Worker, hints: Hints) -> None:
        """Count a request as load of its worker, from here until `release`."""
        worker.load += 1
        if self._sessions is not None and hints.session is not None:
            self._sessions.enter(hints.session, worker)

    def release(self, worker: Worker, hints: Hints) -> None:
        """The request is over: its last byte is on its way, or it ended otherwise."""
        worker.load -= 1
        if self._sessions is not None and hints.session is not None:
            self._sessions.leave(hints.session, worker)

    def _choose(self, model: str | None, candidates: Sequence[Worker], hints: Hints) -> Worker | None:
        policy = self._policies.of(model)
        if self._sessions is None or hints.session is None or policy.name in READ_KEYS_THEMSELVES:
            return policy.select(candidates, hints)
        return self._sessions.place(hints.session, candidates, lambda workers: policy.select(workers, hints))

    def _serving(self, model: str | None) -> Sequence[Worker]:
        snapshot = self._registry.snapshot
        return snapshot.workers if model is None else snapshot.serving(model)
