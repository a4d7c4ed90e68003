"""The engines' load as gauges, read off the workers' last reports when a scrape asks.

A worker without a report has no series, and what an engine does not say has none either.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from smg.engines.load import RankLoad
from smg.fleet.load import OverloadOptions, thresholds_of
from smg.fleet.registry import Registry
from smg.fleet.worker import Worker
from smg.telemetry.families import Labels
from smg.telemetry.metrics import Metrics

Readings = Iterable[tuple[Labels, float]]
Read = Callable[[RankLoad], float | None]

# What waits for its KV cache to be made room for, to be on its way, or to be taken back.
_PREFILL_QUEUES = ("prefill_bootstrap_queue_reqs", "prefill_prealloc_queue_reqs", "prefill_inflight_queue_reqs")
_DECODE_QUEUES = ("decode_prealloc_queue_reqs", "decode_transfer_queue_reqs", "decode_retracted_queue_reqs")


def load_gauges(registry: Registry, metrics: Metrics, overload: OverloadOptions) -> None:
    """Let the gauges of engine load and of overload read the registry."""
    by_rank: tuple[tuple[str, Read], ...] = (
        ("engine_running_requests", lambda rank: rank.num_running_reqs),
        ("engine_waiting_requests", lambda rank: rank.num_waiting_reqs),
        ("engine_token_usage", lambda rank: rank.token_usage),
        ("engine_gen_throughput", lambda rank: rank.gen_throughput),
        ("engine_cache_hit_rate", lambda rank: rank.cache_hit_rate),
    )
    for name, read in by_rank:
        getattr(metrics, name).source(partial(_readings, registry, _model, read))
    by_leg: tuple[tuple[str, Read], ...] = (
        ("engine_pd_kv_transfer_latency_ms", partial(_sum_of, ("kv_transfer_latency_ms",))),
        ("engine_pd_kv_transfer_speed_gb_s", partial(_sum_of, ("kv_transfer_speed_gb_s",))),
        ("engine_pd_prefill_queue_reqs", partial(_sum_of, _PREFILL_QUEUES)),
        ("engine_pd_decode_queue_reqs", partial(_sum_of, _DECODE_QUEUES)),
    )
    for name, read in by_leg:
        getattr(metrics, name).source(partial(_readings, registry, _role, read))
    metrics.workers_overloaded.source(partial(_overloaded, registry, overload))


def _readings(registry: Registry, label: Callable[[Worker], str], read: Read) -> Iterator[tuple[Labels, float]]:
    for worker in registry.snapshot.workers:
        report = worker.report
        if report is None:
            continue
        for rank in report.ranks:
            value = read(rank)
            if value is not None:
                yield (worker.url, label(worker), str(rank.dp_rank)), float(value)


def _model(worker: Worker) -> str:
    return worker.model_id or "unknown"


def _role(worker: Worker) -> str:
    return worker.worker_type


def _sum_of(names: tuple[str, ...], rank: RankLoad) -> float | None:
    """The sum of these members of the split deployment's section, of those that are there."""
    section = rank.disagg or {}
    if section.get("mode", "null") == "null":  # no half of anything
        return None
    values = [value for name in names if isinstance(value := section.get(name), int | float)]
    return sum(values) if values else None


def _overloaded(registry: Registry, overload: OverloadOptions) -> Readings:
    """How many workers of each model that has protected ones are overloaded."""
    tally: Tally[str] = Tally()
    for worker in registry.snapshot.workers:
        if thresholds_of(worker, overload) is not None:
            tally[_model(worker)] += worker.overloaded
    return [((model,), float(count)) for model, count in tally.items()]
