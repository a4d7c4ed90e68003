"""The text that a scrape reads: Prometheus' classic exposition format, version 0.0.4.

prometheus_client writes it, from a collector over our own families (`families.py`). The library costs
memory and start-up time, so it is imported by the first scrape, or by `preload` when the metrics listener
starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING, cast

from smg.telemetry.families import Family, Labels
from smg.telemetry.instruments import Counter, Gauge, Histogram, Instrument, Summary
from smg.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
QUANTILES = (0.0, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0)

Sample = tuple[str, dict[str, str], float]


def render(metrics: Metrics) -> tuple[bytes, str]:
    """The body and the content type of an answer to a scrape."""
    from prometheus_client.exposition import generate_latest  # noqa: PLC0415  see the module's docstring
    from prometheus_client.registry import CollectorRegistry  # noqa: PLC0415

    registry = CollectorRegistry()
    registry.register(_Collector(metrics))
    return generate_latest(registry), CONTENT_TYPE


def preload() -> None:
    """Import what `render` needs, so that the first scrape is as quick as the others."""
    import prometheus_client  # noqa: F401, PLC0415  see the module's docstring


class _Collector:
    """All families of a gateway, as prometheus_client wants to be given them."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.metrics_core import Metric  # noqa: PLC0415  see the module's docstring

        for family in self._metrics.families():
            samples = list(_SAMPLES[family.kind](family))
            if not samples:
                continue
            # The library names a counter without the suffix and adds it again when it writes the head.
            metric = Metric(family.name.removesuffix("_total"), family.help, family.kind)
            for name, labels, value in samples:
                metric.add_sample(name, labels, value)
            yield metric


def _values(family: Family[Instrument]) -> Iterator[Sample]:
    """Counters and gauges: one sample a series; what a callback reads replaces what was recorded."""
    recorded = cast("list[tuple[Labels, Counter | Gauge]]", family.recorded())
    series = {labels: child.value for labels, child in recorded}
    series.update(family.readings())
    for labels, value in series.items():
        yield family.name, dict(zip(family.label_names, labels, strict=True)), value


def _histograms(family: Family[Instrument]) -> Iterator[Sample]:
    """Cumulative buckets, the sum and the count of each series."""
    for labels, child in cast("list[tuple[Labels, Histogram]]", family.recorded()):
        named = dict(zip(family.label_names, labels, strict=True))
        totals = list(accumulate(child.counts))
        for bound, total in zip((*child.bounds, inf), totals, strict=True):
            yield f"{family.name}_bucket", {**named, "le": _bound(bound)}, total
        yield f"{family.name}_sum", named, child.sum
        yield f"{family.name}_count", named, totals[-1]


def _bound(bound: float) -> str:
    """A bucket's upper bound as dashboards made for SMG spell it: 0.25, 5, +Inf."""
    return "+Inf" if bound == inf else f"{bound:.15g}"


def _summaries(family: Family[Instrument]) -> Iterator[Sample]:
    """Quantiles, the sum and the count of each series."""
    for labels, child in cast("list[tuple[Labels, Summary]]", family.recorded()):
        named = dict(zip(family.label_names, labels, strict=True))
        for rank, value in zip(QUANTILES, child.quantiles(QUANTILES), strict=True):
            yield family.name, {**named, "quantile": f"{rank:g}"}, value
        yield f"{family.name}_sum", named, child.sum
        yield f"{family.name}_count", named, child.count


_SAMPLES: dict[str, Callable[[Family[Instrument]], Iterator[Sample]]] = {
    "counter": _values,
    "gauge": _values,
    "histogram": _histograms,
    "summary": _summaries,
}
