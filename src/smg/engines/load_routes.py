"""Which of an engine's routes tells its load, and the plan that asks them.

    /loads            a gateway's own report, or an engine's; limited to one model where the worker has one
    /v1/loads         SGLang's report, in the sections that are read
    /metrics          Prometheus text, for engines whose gauges are known

A status that says "no such route" leads on to the next one; the route that answered is asked first from then on. Any
other failure ends the poll: the route is there, its engine is in trouble.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote

from smg.engines.gauges import Gauges, read_gauges
from smg.engines.load import Ranks, read_rows
from smg.engines.plan import NO_ANSWER, Answer, Plan

ABSENT_STATUSES = frozenset({404, 405, 501})

_LOADS = "/loads"
_V1_LOADS = "/v1/loads"
_METRICS = "/metrics"
_SECTIONS = "?include=core,disagg,queues,memory"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one poll found: a row a rank, none if there is no report.

    `route` is to be remembered for the next poll; None together with `absent` says that the engine has none.
    """

    ranks: Ranks = ()
    route: str | None = None
    absent: bool = False


class _Route(NamedTuple):
    name: str
    path: str
    read: Callable[[Answer], Ranks | None]


def read_load(gauges: Sequence[Gauges], model: str | None, remembered: str | None = None) -> Plan[Reading]:
    """Ask an engine for its load. `model` is the worker's, None if it serves any."""
    routes = _routes(gauges, model)
    absent = True
    for route in sorted(routes, key=lambda route: route.name != remembered):
        answer = (yield (route.path,)).get(route.path, NO_ANSWER)
        if answer.status in ABSENT_STATUSES:
            continue
        if not answer.ok:
            return Reading(route=remembered)
        absent = False
        ranks = route.read(answer)
        if ranks is not None:
            return Reading(ranks, route.name)
    return Reading(absent=absent)


def _routes(gauges: Sequence[Gauges], model: str | None) -> list[_Route]:
    routes = [
        _Route(_LOADS, f"{_LOADS}?model={quote(model, safe='')}" if model else _LOADS, _rows),
        _Route(_V1_LOADS, _V1_LOADS + _SECTIONS, _rows),
    ]
    if gauges:
        routes.append(_Route(_METRICS, _METRICS, lambda answer: read_gauges(answer.body, gauges)))
    return routes


def _rows(answer: Answer) -> Ranks | None:
    return read_rows(answer.members)
