"""The fleet at one moment: who serves which model, and which names stand for it.

A snapshot never changes; the registry puts a new one in its place when a registration changes. A reader takes
`registry.snapshot` once and sees one consistent fleet, without a lock. The workers in it are live: their status and
their counters are those of now.

Names. A name is canonical (a card's id) or an alias, never both: a model that bears a name beats every alias. Of
several models that declare one alias, the configured one has it, else the one that has had it so far, else the
first to register; when its owner leaves, it passes on. Workers without cards are wildcards: they serve every model,
known or not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from smg.fleet.worker import Status, Worker

# What a request that names no model is about; nobody can claim it.
RESERVED_NAME = "unknown"

_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All workers in the order of registration, and every way to find them.

    `models` leads from a canonical id to the workers that serve it, wildcards last; `aliases` from an alias to a
    canonical id; `wildcards` serve whatever is in neither. `version` grows from one snapshot to the next. `ranked` says
    that some workers are ranks of one engine, whose calls must carry the rank in their body.
    """

    version: int = 0
    workers: tuple[Worker, ...] = ()
    by_id: Mapping[str, Worker] = field(default_factory=dict)
    by_url: Mapping[str, Worker] = field(default_factory=dict)
    models: Mapping[str, tuple[Worker, ...]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    wildcards: tuple[Worker, ...] = ()
    ranked: bool = False

    @property
    def ready(self) -> tuple[Worker, ...]:
        """The workers that are ready now."""
        return tuple([worker for worker in self.workers if worker.status is Status.READY])

    def resolve(self, name: str) -> str:
        """The canonical name of a model; a name that nobody knows stands for itself."""
        return self.aliases.get(name, name)

    def serving(self, name: str | None) -> tuple[Worker, ...]:
        """Every worker that serves a canonical name, ready or not; empty if the model is unknown. None asks for all."""
        return self.workers if name is None else self.models.get(name, self.wildcards)


def take(
    workers: Iterable[Worker],
    *,
    version: int,
    configured: Mapping[str, str] = _NONE,
    owners: Mapping[str, str] = _NONE,
) -> Snapshot:
    """The snapshot of these workers. `configured` are the gateway's own aliases, `owners` those settled so far."""
    fleet = tuple(workers)
    serving: dict[str, dict[str, Worker]] = {}
    claims: dict[str, dict[str, None]] = {}
    for worker in fleet:
        for card in worker.models:
            serving.setdefault(card.id, {})[worker.id] = worker
            for alias in card.aliases:
                claims.setdefault(alias, {})[card.id] = None
    wildcards = tuple([worker for worker in fleet if not worker.models])
    return Snapshot(
        version=version,
        workers=fleet,
        by_id={worker.id: worker for worker in fleet},
        by_url={worker.url: worker for worker in fleet},
        models={model: (*named.values(), *wildcards) for model, named in serving.items()},
        aliases={
            alias: _owner(claimants, configured.get(alias), owners.get(alias))
            for alias, claimants in claims.items()
            if alias and alias not in serving and alias != RESERVED_NAME
        },
        wildcards=wildcards,
        ranked=any(worker.dp_rank is not None for worker in fleet),
    )


def _owner(claimants: Collection[str], *preferred: str | None) -> str:
    """The first of the preferred models that claims an alias, else the first to have claimed it."""
    for model in preferred:
        if model in claimants:
            return str(model)
    return next(iter(claimants))
