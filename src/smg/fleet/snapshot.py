"""The fleet at one moment: who serves which model, and which names stand for it.

A snapshot never changes; the registry puts a new one in its place. A reader takes `registry.snapshot` once
and sees one consistent fleet, without a lock. The workers in it are live: their counters move and their
status may be newer.

Names. A name is canonical (a card's id) or an alias, never both: a model that bears a name beats every
alias. Of several models that declare one alias, the configured one has it, else the one that has had it so
far, else the first to register; when its owner leaves, it passes on. Workers without cards are wildcards:
they serve every model, known or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from smg.fleet.worker import Status, Worker

# What a request that names no model is about; nobody can claim it.
RESERVED_NAME = "unknown"


@dataclass(frozen=True, slots=True)
class ModelWorkers:
    """Who serves one model, in the order of registration, wildcard workers last; `ready` is the part that
    may route.
    """

    id: str
    workers: tuple[Worker, ...]
    ready: tuple[Worker, ...]


def _freeze(model: str, workers: Sequence[Worker]) -> ModelWorkers:
    return ModelWorkers(model, tuple(workers), tuple(w for w in workers if w.status is Status.READY))


_EMPTY: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All workers in the order of registration, and every way to find them.

    `models` is keyed by canonical id, `aliases` leads from an alias to one, `wildcards` serve whatever is
    in neither. `version` grows with every change.
    """

    version: int = 0
    workers: tuple[Worker, ...] = ()
    by_id: Mapping[str, Worker] = field(default_factory=dict)
    by_url: Mapping[str, Worker] = field(default_factory=dict)
    models: Mapping[str, ModelWorkers] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    wildcards: ModelWorkers = ModelWorkers(RESERVED_NAME, (), ())

    @property
    def ready(self) -> tuple[Worker, ...]:
        """The workers that were ready when the snapshot was taken."""
        return tuple(w for w in self.workers if w.status is Status.READY)

    def resolve(self, name: str) -> str:
        """The canonical name of a model; a name that nobody knows stands for itself."""
        return self.aliases.get(name, name)

    def serving(self, name: str) -> tuple[Worker, ...]:
        """Every worker that serves a canonical name, ready or not; empty if the model is unknown."""
        return self.models.get(name, self.wildcards).workers


def take(
    workers: Iterable[Worker],
    *,
    version: int,
    configured: Mapping[str, str] = _EMPTY,
    owners: Mapping[str, str] = _EMPTY,
) -> Snapshot:
    """The snapshot of these workers. `configured` are the gateway's own aliases, `owners` those of the last
    snapshot.
    """
    fleet = tuple(workers)
    serving: dict[str, list[Worker]] = {}
    for worker in fleet:
        for model in dict.fromkeys(card.id for card in worker.models):
            serving.setdefault(model, []).append(worker)
    wildcards = [worker for worker in fleet if not worker.models]
    return Snapshot(
        version=version,
        workers=fleet,
        by_id={worker.id: worker for worker in fleet},
        by_url={worker.url: worker for worker in fleet},
        models={model: _freeze(model, named + wildcards) for model, named in serving.items()},
        aliases=_settle(fleet, serving, configured, owners),
        wildcards=_freeze(RESERVED_NAME, wildcards),
    )


def _settle(
    fleet: Iterable[Worker],
    serving: Mapping[str, object],
    configured: Mapping[str, str],
    owners: Mapping[str, str],
) -> dict[str, str]:
    claims: dict[str, list[str]] = {}
    for alias, model in _declared(fleet):
        if alias and alias not in serving and alias != RESERVED_NAME:
            claims.setdefault(alias, []).append(model)
    settled = {}
    for alias, models in claims.items():
        preferred = (configured.get(alias), owners.get(alias), models[0])
        settled[alias] = next(model for model in preferred if model in models)
    return settled


def _declared(fleet: Iterable[Worker]) -> Iterator[tuple[str, str]]:
    for worker in fleet:
        for card in worker.models:
            for alias in card.aliases:
                yield alias, card.id
