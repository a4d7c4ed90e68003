"""What the rest of the gateway may know about an engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from smg.engines.gauges import Gauges
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
    """One kind of engine. `read_labels` plans how its metadata is read over HTTP.

    `load_gauges` are the names of its load in its metrics, by version; `flush_path` is the route that empties its
    prefix cache. `split` is how its prefill and decode halves meet: see `bootstrap.py` and `kv_transfer.py`.
    `decisions` says how it is asked for them: on the OpenAI route, or as `systemone.py` has it.
    """

    name: str
    read_labels: Callable[[], Plan[Labels]]
    capabilities: Capabilities = Capabilities()
    load_gauges: tuple[Gauges, ...] = ()
    flush_path: str = "/flush_cache"
    split: Literal["rendezvous", "transfer"] = "rendezvous"
    decisions: Literal["forwarded", "system one"] = "forwarded"
