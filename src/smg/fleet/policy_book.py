"""Which policy places the requests of which model: one instance a model, chosen when the model's first worker comes.

The first worker of a model may bear the label `policy`. One that names the command line's policy gets its options, one
that names another gets that policy's built-in ones; a name nobody knows is ignored, with a warning. The choice stands
until the model's last worker leaves.

All other requests share one instance: those that name no model, and those whose model only wildcard workers serve.
So what callers write into their requests makes no policy. The first wildcard worker chooses for them, the command line
while there is none.

The book follows the registry by itself. What an instance remembers of a removed worker is purged at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from smg.fleet.policies import POLICIES, PREFILL_ONLY, load
from smg.fleet.policies.base import Policy, PolicyContext
from smg.fleet.registry import Change, Registry
from smg.fleet.worker import Worker, WorkerType

LABEL = "policy"


class Policies:
    """The policies for one kind of worker.

    `main` and `options` are the command line's choice, `context(name)` is what an instance of a policy is given, and
    `warn` tells the operator of a label that means nothing. Without `by_label` no label is read, as for the halves of
    split engines.
    """

    def __init__(
        self,
        registry: Registry,
        main: str,
        options: Any,
        context: Callable[[str], PolicyContext],
        warn: Callable[[str], None],
        *,
        worker_type: WorkerType = "regular",
        by_label: bool = True,
    ) -> None:
        self._registry = registry
        self._main = main
        self._options = options
        self._context = context
        self._warn = warn
        self._worker_type = worker_type
        self._by_label = by_label
        self._by_model: dict[str, Policy] = {}
        self._shared = self._make(main)
        self._has_wildcards = False
        for model in registry.snapshot.models:
            self._settle(model)
        self._settle_shared()
        registry.subscribe(self._follow)

    def of(self, model: str | None) -> Policy:
        """The policy for requests of a canonical model, None for those that name none."""
        return self._by_model.get(model, self._shared) if model is not None else self._shared

    def sweep(self, now: float) -> None:
        """Let every policy do its periodic upkeep."""
        for policy in self._all():
            policy.sweep(now)

    def sizes(self) -> Iterator[tuple[str | None, str, Mapping[str, int]]]:
        """(model, policy, what it remembers) of every instance; the shared one has no model."""
        yield None, self._shared.name, self._shared.sizes()
        for model, policy in self._by_model.items():
            yield model, policy.name, policy.sizes()

    def _all(self) -> tuple[Policy, ...]:
        return self._shared, *self._by_model.values()

    def _follow(self, change: Change) -> None:
        if change.kind == "status":
            return
        models = {card.id for cards in (change.old_models, change.worker.models) for card in cards}
        for model in models:
            self._settle(model)
        self._settle_shared()
        if change.kind == "removed":
            for policy in self._all():
                policy.forget(change.worker.url)

    def _settle(self, model: str) -> None:
        """Choose for a model that has become one, let go of one that is none any more."""
        first = self._first(self._registry.snapshot.models.get(model, ()))
        if first is None:
            self._by_model.pop(model, None)
        elif model not in self._by_model:
            self._by_model[model] = self._make(self._named_by(first))

    def _settle_shared(self) -> None:
        first = self._first(self._registry.snapshot.wildcards, wildcard=True)
        if (first is not None) == self._has_wildcards:
            return
        self._has_wildcards = first is not None
        name = self._main if first is None else self._named_by(first)
        if name != self._shared.name:
            self._shared = self._make(name)

    def _first(self, workers: tuple[Worker, ...], *, wildcard: bool = False) -> Worker | None:
        """The worker that was there first, of our kind; `wildcard` says whether it must be one."""
        for worker in workers:
            if worker.worker_type == self._worker_type and (not worker.models) == wildcard:
                return worker
        return None

    def _named_by(self, worker: Worker) -> str:
        """The policy a worker's label asks for, else the command line's."""
        name = worker.labels.get(LABEL)
        if not self._by_label or not name:
            return self._main
        if name in POLICIES and name not in PREFILL_ONLY:
            return name
        self._warn(f"worker {worker.url} asks for the policy {name!r}, which is none; {self._main} is used")
        return self._main

    def _make(self, name: str) -> Policy:
        policy = load(name)
        return policy(self._context(name), self._options if name == self._main else policy.label_options)
