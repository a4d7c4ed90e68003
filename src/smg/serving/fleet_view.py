"""What the fleet says of every request alike, worked out once and kept until the registry has another snapshot."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from smg.fleet.placement import Needs, Placer
from smg.fleet.registry import Change, Registry
from smg.serving.body_path import BodyPathOptions, standing_reason
from smg.serving.call import NO_MODEL, UNSERVED_MODEL


class Named(NamedTuple):
    """What a name stands for: its canonical `model`, None without one; how a body spells that, None if it does so
    already; its `label` in metrics; and what the policy of its requests has to know.
    """

    model: str | None
    spelling: bytes | None
    label: str
    policy: Needs


class FleetView:
    """The fleet as requests of one placer see it."""

    def __init__(self, registry: Registry, placer: Placer, options: BodyPathOptions) -> None:
        self._registry = registry
        self._placer = placer
        self._options = options
        self._names: dict[str | None, Named] = {}
        self._standing: dict[bool, str | None] = {}
        registry.subscribe(self._follow)

    def named(self, name: str | None) -> Named:
        """What a request's name of a model stands for."""
        found = self._names.get(name)
        if found is None:
            found = self._look_up(name)
            if found.label != UNSERVED_MODEL:
                self._names[name] = found  # the registry's names alone are kept: callers can invent any number
        return found

    def first(self) -> Named:
        """The first of the models, which often is the only one."""
        return self.named(next(iter(self._registry.snapshot.models), None))

    def reason_to_read(self, *, has_token_hint: bool) -> str | None:
        """Why bodies must be read, whatever they are; None if that depends on the body."""
        if has_token_hint not in self._standing:
            self._standing[has_token_hint] = standing_reason(
                self._options, self._registry.snapshot, self.first().policy, has_token_hint=has_token_hint
            )
        return self._standing[has_token_hint]

    def _look_up(self, name: str | None) -> Named:
        if name is None:
            return Named(None, None, NO_MODEL, self._placer.policy(None))
        snapshot = self._registry.snapshot
        model = snapshot.resolve(name)
        spelling = None if model == name else msgspec.json.encode(model)
        label = model if model in snapshot.models else UNSERVED_MODEL
        return Named(model, spelling, label, self._placer.policy(model))

    def _follow(self, change: Change) -> None:
        if change.kind != "status":
            self._names.clear()
            self._standing.clear()
