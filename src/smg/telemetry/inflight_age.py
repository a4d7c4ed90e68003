"""How old the requests in flight are: the bins of `smg_http_inflight_request_age_count`.

The bins do not add up: each counts the ages above its `gt` up to its `le`, in seconds, which is what a heat
map draws and what shows a request that hangs. Who knows the ages feeds them in at scrape time, through the
family's `source`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise

from smg.telemetry.families import Labels

AGE_BOUNDS_SECS = (30, 60, 180, 300, 600, 1200, 3600, 7200, 14400, 28800, 86400)
_EDGES = ("0", *map(str, AGE_BOUNDS_SECS), "+Inf")
_BINS: tuple[Labels, ...] = tuple(pairwise(_EDGES))


def count_by_age(ages_secs: Iterable[float]) -> list[tuple[Labels, float]]:
    """Every bin's `(gt, le)` with the number of ages in it, empty bins included."""
    counts = [0] * len(_BINS)
    for age in ages_secs:
        counts[bisect_left(AGE_BOUNDS_SECS, age)] += 1
    return list(zip(_BINS, counts, strict=True))
