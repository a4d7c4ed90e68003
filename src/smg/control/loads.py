"""GET /loads: what the engines last reported of their load, from memory. No worker is contacted.

The shape is that of SGLang's own load route, so that a gateway can stand behind a gateway, with the worker of each row
added. A number that an engine does not report is 0 here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from math import fsum
from typing import Any
from urllib.parse import parse_qs

import msgspec

from smg import __version__
from smg.engines.load import RankLoad
from smg.fleet.registry import Registry
from smg.fleet.worker import LoadReport, Worker
from smg.net.exchange import Exchange
from smg.net.routes import Route

Row = dict[str, Any]

_SECTIONS = ("memory", "queues", "disagg")
_VERSION = f"smg-{__version__}"


def routes(registry: Registry, wall: Callable[[], float]) -> list[Route]:
    """The rows of the route table. `wall` is the time of day in Unix seconds."""

    def handler(exchange: Exchange) -> None:
        workers = _asked_for(registry, exchange.query)
        exchange.answer(HTTPStatus.OK.value, msgspec.json.encode(loads_view(workers, wall())))

    return [Route("GET", "/loads", handler), Route("GET", "/get_loads", handler, "admin")]


def loads_view(workers: Sequence[Worker], at: float) -> Row:
    """The last reports of these workers. Without any there is no `aggregate`."""
    ranks: list[RankLoad] = []
    rows: list[Row] = []
    for worker in workers:
        if worker.report is not None:
            ranks += worker.report.ranks
            named = {"worker": worker.url, "worker_type": worker.worker_type}
            rows += [{**named, **load_row(rank)} for rank in worker.report.ranks]
    view = {"timestamp": _timestamp(at), "version": _VERSION, "dp_rank_count": len(rows), "loads": rows}
    return {**view, "aggregate": _aggregate(ranks)} if ranks else view


def engine_load(report: LoadReport | None) -> Row | None:
    """A report as the worker API shows it in its worker's row."""
    if report is None:
        return None
    rows = [load_row(rank) for rank in report.ranks]
    return {"timestamp": _timestamp(report.received_at), "dp_rank_count": len(rows), "loads": rows}


def load_row(rank: RankLoad) -> Row:
    """One rank's load; a section that the engine does not report is left out."""
    row: Row = {
        "dp_rank": rank.dp_rank,
        "num_running_reqs": rank.num_running_reqs,
        "num_waiting_reqs": rank.num_waiting_reqs,
        "num_waiting_uncached_tokens": rank.num_waiting_uncached_tokens or 0,
        "num_total_reqs": rank.num_running_reqs + rank.num_waiting_reqs,
        "num_used_tokens": rank.num_used_tokens or 0,
        "max_total_num_tokens": rank.max_total_num_tokens or 0,
        "token_usage": rank.token_usage or 0.0,
        "gen_throughput": rank.gen_throughput or 0.0,
        "cache_hit_rate": rank.cache_hit_rate or 0.0,
        "utilization": rank.utilization or 0.0,
        "max_running_requests": rank.max_running_requests or 0,
    }
    for name in _SECTIONS:
        section = getattr(rank, name)
        if section is not None:
            row[name] = section
    return row


def _asked_for(registry: Registry, query: str) -> Sequence[Worker]:
    """All workers, or those that serve `?model=`, which may be an alias."""
    snapshot = registry.snapshot
    model = parse_qs(query).get("model", [""])[0]
    return snapshot.serving(snapshot.resolve(model)) if model else snapshot.workers


def _aggregate(ranks: Sequence[RankLoad]) -> Row:
    running = sum([rank.num_running_reqs for rank in ranks])
    waiting = sum([rank.num_waiting_reqs for rank in ranks])
    return {
        "total_running_reqs": running,
        "total_waiting_reqs": waiting,
        "total_reqs": running + waiting,
        "avg_token_usage": _mean([rank.token_usage for rank in ranks]),
        "avg_throughput": _mean([rank.gen_throughput for rank in ranks]),
        "avg_utilization": _mean([rank.utilization for rank in ranks]),
    }


def _mean(values: Sequence[float | None]) -> float:
    """The mean over the ranks that report the value, 0 if none does."""
    known = [value for value in values if value is not None]
    return fsum(known) / len(known) if known else 0.0


def _timestamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()
