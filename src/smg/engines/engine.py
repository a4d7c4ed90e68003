"""What the rest of the gateway may know about an engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from smg.engines.labels import Labels
from smg.engines.plan import Plan


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine's control routes can do.

    `pause_modes` are the modes its pause route takes, `update_from` the sources it can load weights from.
    """

    pause_modes: tuple[str, ...] = ()
    update_from: tuple[str, ...] = ()
    abort: bool = False
    flush_cache: bool = False
    sleep_wake: bool = False
    reports_weight_version: bool = False


@dataclass(frozen=True, slots=True)
class Engine:
    """One kind of engine. `read_labels` plans how its metadata is read over HTTP."""

    name: str
    read_labels: Callable[[], Plan[Labels]]
    capabilities: Capabilities = Capabilities()
