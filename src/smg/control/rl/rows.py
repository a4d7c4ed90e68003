"""A row of discovery: an engine as a trainer sees it, and what its control routes can do.

Sizes and versions are the labels recorded at registration; nothing here asks an engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from smg.engines import engine_of
from smg.engines.engine import Capabilities
from smg.fleet.targets import Target, engine_name

Row = dict[str, Any]

_COUNT: Final = re.compile(r"\+?[0-9]{1,18}")  # what fits 64 bits


def discovery_row(target: Target) -> Row:
    """The row of one engine."""
    worker, ranks = target
    labels = worker.labels
    return {
        "id": worker.id,
        "url": worker.url,
        "base_url": worker.base_url,
        "engine": engine_name(worker),
        "engine_version": labels.get("version"),
        "model_id": worker.model_id,
        "worker_type": worker.worker_type,
        "connection_mode": worker.connection_mode,
        "tp_size": _count(labels.get("tp_size")),
        "dp_size": _count(labels.get("dp_size")),
        "pp_size": _count(labels.get("pp_size")),
        "dp_ranks": ranks,
        "role": labels.get("role"),
        "health": worker.status.value,
        "weight_version": labels.get("weight_version"),
        "labels": labels,
        "capabilities": capabilities_row(engine_of(worker.runtime).capabilities, labels),
    }


def capabilities_row(known: Capabilities, labels: Mapping[str, str]) -> Row:
    """What an engine can do: as is known of its kind, with the worker's `rl.*` labels laid over it one by one."""
    row: Row = {"source": "static"}
    for name, read in _OVERRIDES.items():
        label = labels.get(f"rl.{name}")
        row[name] = getattr(known, name) if label is None else read(label)
        if label is not None:
            row["source"] = "label"
    return row


def _names(text: str) -> list[str]:
    return [name for item in text.split(",") if (name := item.strip())]


def _truth(text: str) -> bool:
    return text.lower() == "true"


# Every capability, in the order of the row, and how a label spells it.
_OVERRIDES: Final[Mapping[str, Callable[[str], object]]] = {
    "pause_modes": _names,
    "update_from": _names,
    "abort": _truth,
    "flush_cache": _truth,
    "sleep_wake": _truth,
    "reports_weight_version": _truth,
}


def _count(text: str | None) -> int | None:
    """The number that a label holds, None if it holds none."""
    if text is None or not _COUNT.fullmatch(text.strip()):
        return None
    return int(text)
