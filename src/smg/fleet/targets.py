"""Whom a control call is for: engines, where the registry has workers, and what a selector sees of them.

Data-parallel ranks are workers of their own for requests, but control routes are the engine's: ranks that share an
address are one target, for which the lowest rank stands. Health, load and breakers play no part.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from smg.fleet.worker import Worker
from smg.protocol.selectors import Selector

# What the control plane's contract knows; whatever else a runtime may be called is unknown to its readers.
_ENGINES = frozenset({"sglang", "vllm", "trtllm", "tokenspeed", "mlx", "generic", "external"})
_REGISTRY_KEYS = ("id", "url", "base_url", "engine", "model", "worker_type", "connection_mode", "health")


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


def selected(workers: Iterable[Worker], selector: Selector) -> list[Worker]:
    """The engines' workers that match, by address. Ranks collapse before they are matched."""
    return [worker for worker, _ in targets(workers) if selector.matches(selector_keys(worker))]


def selector_keys(worker: Worker) -> dict[str, str]:
    """The keys of a worker: its labels, and what the registry says of it, which no label can take the place of."""
    keys = {name: value for name, value in worker.labels.items() if name not in _REGISTRY_KEYS}
    keys.update(
        id=worker.id,
        url=worker.url,
        base_url=worker.base_url,
        engine=engine_name(worker),
        worker_type=worker.worker_type,
        connection_mode=worker.connection_mode,
        health=worker.status.value,
    )
    if worker.model_id is not None:
        keys["model"] = worker.model_id
    return keys


def engine_name(worker: Worker) -> str:
    """The engine's name in the contract."""
    return worker.runtime if worker.runtime in _ENGINES else "unknown"


def _rank(worker: Worker) -> tuple[int, str]:
    return worker.dp_rank or 0, worker.url
