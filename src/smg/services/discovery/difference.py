"""What to do so that the workers of a source are those it names.

Only what the source itself registered is compared; workers of others are not looked at here at all. A worker whose key
stays and whose spec changes is changed in place, where that is possible, unless it moved: another address is another
worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from smg.fleet.spec import WorkerSpec
from smg.services.discovery.desired import Desired


@dataclass(slots=True)
class Owned:
    """What the source registered: the id and the spec of the registration, the name that the engine gives its model,
    once that is known, and the ids of the workers that came of it: one, or one for each data-parallel rank.
    """

    worker_id: str
    spec: WorkerSpec
    own_name: str | None = None
    workers: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Difference:
    """The steps, to be taken in this order; removals and changes name keys of owned workers."""

    removes: list[str] = field(default_factory=list)
    updates: list[tuple[str, WorkerSpec]] = field(default_factory=list)
    adds: list[Desired] = field(default_factory=list)


def distinct(desired: Iterable[Desired]) -> dict[str, Desired]:
    """The desired workers by key. Of several with one key or one address the first counts."""
    found: dict[str, Desired] = {}
    urls: set[str] = set()
    for one in desired:
        if one.key not in found and one.spec.url not in urls:
            found[one.key] = one
            urls.add(one.spec.url)
    return found


def difference(desired: Mapping[str, Desired], owned: Mapping[str, Owned], *, in_place: bool = True) -> Difference:
    """Compare what should be there with what is. Without `in_place` a changed worker is taken out and added anew."""
    steps = Difference()
    for key, mine in owned.items():
        one = desired.get(key)
        if one is None or one.spec.url != mine.spec.url:
            steps.removes.append(key)
            continue
        spec = one.wanted(mine.own_name)
        if spec != mine.spec and in_place:
            steps.updates.append((key, spec))
        elif spec != mine.spec:
            steps.removes.append(key)
    kept = owned.keys() - set(steps.removes)
    steps.adds.extend(one for key, one in desired.items() if key not in kept)
    return steps
