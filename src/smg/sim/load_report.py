"""SGLang's load reports: what a router asks an engine before it sends more.

Rows are per data-parallel rank. A request runs on the rank it names, rank 0 without one; places, KV capacity and
throughput are shared out evenly.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from smg.sim.dialect import Answer, Control, SimError, as_json

_SECTIONS = frozenset({"core", "memory", "spec", "lora", "disagg", "queues", "all"})


def loads(version: str) -> Callable[[Control], Answer]:
    """`GET /loads` and `/v1/loads`: `include` picks sections (all by default), `dp_rank` one rank."""

    def run(control: Control) -> Answer:
        include = {part.strip() for part in control.param("include", "all").split(",") if part.strip()}
        if unknown := include - _SECTIONS:
            raise SimError(400, f"unknown load sections: {', '.join(sorted(unknown))}", "include")
        rows = [_row(control, rank, include) for rank in range(control.machine.options.dp_size)]
        if asked := control.param("dp_rank"):
            rows = [row for row in rows if str(row["dp_rank"]) == asked]
        return as_json(
            {
                "timestamp": datetime.fromtimestamp(control.wall, UTC).isoformat(),
                "version": version,
                "dp_rank_count": len(rows),
                "loads": rows,
            }
        )

    return run


def get_load(control: Control) -> Answer:
    """`GET /get_load`: the older, shorter report."""
    rows = [_core(control, rank) for rank in range(control.machine.options.dp_size)]
    return as_json(
        [
            {
                "dp_rank": row["dp_rank"],
                "num_reqs": row["num_total_reqs"],
                "num_waiting_reqs": row["num_waiting_reqs"],
                "num_tokens": row["num_total_tokens"],
            }
            for row in rows
        ]
    )


def _row(control: Control, rank: int, include: set[str]) -> dict[str, Any]:
    row = _core(control, rank)
    if include & {"all", "queues"}:
        row["queues"] = {"waiting": row["num_waiting_reqs"], "grammar": 0, "paused": 0, "retracted": 0}
    if include & {"all", "memory"}:
        capacity = row["max_total_num_tokens"]
        row["memory"] = {"weight_gb": 0.0, "kv_cache_gb": 0.0, "graph_gb": 0.0, "token_capacity": capacity}
    return row


def _core(control: Control, rank: int) -> dict[str, Any]:
    machine, ranks = control.machine, control.machine.options.dp_size
    scheduler = machine.scheduler
    running = [s for s in scheduler.running if s.rank % ranks == rank]
    waiting = [s for s in scheduler.waiting if s.rank % ranks == rank]
    used = sum([s.prompt.tokens + s.produced for s in running])
    capacity = max(1, scheduler.kv_tokens // ranks)
    places = max(1, scheduler.max_running // ranks)
    return {
        "dp_rank": rank,
        "num_running_reqs": len(running),
        "num_waiting_reqs": len(waiting),
        "num_waiting_uncached_tokens": scheduler.uncached_tokens(waiting),
        "num_total_reqs": len(running) + len(waiting),
        "num_used_tokens": used,
        "num_total_tokens": used + sum([s.prompt.tokens for s in waiting]),
        "max_total_num_tokens": capacity,
        "token_usage": min(1.0, used / capacity),
        "gen_throughput": scheduler.throughput.rate(control.now) / ranks,
        "cache_hit_rate": machine.cache_hit_rate,
        "utilization": min(1.0, len(running) / places),
        "max_running_requests": places,
    }
