"""Whom a control call is for: engines, where the registry has workers, and what a selector sees of them.

Data-parallel ranks are workers of their own for requests, but control routes are the engine's: ranks that share an
address are one target, for which the lowest rank stands. Health, load and breakers play no part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from smg.fleet.worker import Worker
from smg.protocol.selectors import Selector

# What changes of a worker without its registration.
_LIVE_KEYS = frozenset({"health"})
# What the control plane's contract knows; whatever else a runtime may be called is unknown to its readers.
_ENGINES = frozenset({"sglang", "vllm", "trtllm", "tokenspeed", "mlx", "generic", "external"})


class Target(NamedTuple):
    """One engine: the worker that stands for it, and how many workers share its address."""

    worker: Worker
    ranks: int


def targets(workers: Iterable[Worker]) -> list[Target]:
    """The engines behind these workers, by address."""
    by_address: dict[str, list[Worker]] = {}
    for worker in workers:
        by_address.setdefault(worker.base_url, []).append(worker)
    return [Target(min(sharing, key=_rank), len(sharing)) for _, sharing in sorted(by_address.items())]


def ranks_of(worker: Worker, workers: Iterable[Worker]) -> int:
    """How many of these workers share the address of one."""
    return sum([other.base_url == worker.base_url for other in workers])


def selected(engines: Iterable[Target], selector: Selector) -> list[Worker]:
    """The engines' workers that match, in their order. Ranks have collapsed before they are matched."""
    names = {term.key for term in selector.terms}
    return [worker for worker, _ in engines if selector.matches(selector_keys(worker, names))]


def lasts(selector: Selector) -> bool:
    """Whether those whom a selector means stay the same until the registry has another snapshot."""
    return _LIVE_KEYS.isdisjoint([term.key for term in selector.terms])


def selector_keys(worker: Worker, names: Iterable[str]) -> dict[str, str]:
    """Those of a worker's keys that have these names: what the registry says of it, which no label can take the place
    of, and its labels.
    """
    keys = {}
    for name in names:
        read = _REGISTRY_KEYS.get(name)
        value = worker.labels.get(name) if read is None else read(worker)
        if value is not None:
            keys[name] = value
    return keys


def engine_name(worker: Worker) -> str:
    """The engine's name in the contract."""
    return worker.runtime if worker.runtime in _ENGINES else "unknown"


def _rank(worker: Worker) -> tuple[int, str]:
    return worker.dp_rank or 0, worker.url


_REGISTRY_KEYS: dict[str, Callable[[Worker], str | None]] = {
    "id": lambda worker: worker.id,
    "url": lambda worker: worker.url,
    "base_url": lambda worker: worker.base_url,
    "engine": engine_name,
    "model": lambda worker: worker.model_id,
    "worker_type": lambda worker: worker.worker_type,
    "connection_mode": lambda worker: worker.connection_mode,
    "health": lambda worker: worker.status.value,
}
