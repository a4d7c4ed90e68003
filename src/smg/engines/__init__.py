"""Engines: everything that differs between them, one engine a file.

An engine is added with its file and one row here. What the engine files share: `plan.py` and `engine.py`, for metadata
`detection.py`, `labels.py`, `info.py` and `grpc_services.py`, for load `load.py`, `load_routes.py` and `gauges.py`, and
`merging.py` for metrics. Engine files do not import each other.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, cast

from smg.lazy import resolve

if TYPE_CHECKING:
    from smg.engines.engine import Engine

# Runtime -> where its engine is; imported on first use.
TABLE = {
    "sglang": "smg.engines.sglang:SGLANG",
    "vllm": "smg.engines.vllm:VLLM",
    "generic": "smg.engines.generic:GENERIC",
}


@cache
def engine_of(runtime: str) -> Engine:
    """The engine of a runtime; one without a file of its own is generic."""
    return cast("Engine", resolve(TABLE.get(runtime, TABLE["generic"])))
