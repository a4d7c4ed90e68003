"""What an engine's answer means for retries and for its breaker, by status.

A worker may bring lists of its own; a list replaces the gateway's. A status that is retried because a worker's list
says so speaks against the worker too, unless it is one of mere capacity. No answer at all counts as a failure
everywhere.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

RETRYABLE_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
FAILURE_STATUSES = frozenset({408, 500, 502, 503, 504})
CAPACITY_STATUSES = frozenset({429})
# These are a worker's own failure: asking the same worker again would only repeat it.
ELSEWHERE_STATUSES = frozenset({500})


@dataclass(frozen=True, slots=True)
class StatusRules:
    """`retryable` is worth another attempt, `failures` speak against a worker, `capacity` says nothing of it."""

    retryable: frozenset[int] = RETRYABLE_STATUSES
    failures: frozenset[int] = FAILURE_STATUSES
    capacity: frozenset[int] = CAPACITY_STATUSES


DEFAULT_RULES = StatusRules()


def status_rules(retryable: Collection[int] | None, capacity: Collection[int] | None) -> StatusRules:
    """The rules of a worker with these lists; None where it has none."""
    if retryable is None and capacity is None:
        return DEFAULT_RULES
    full = CAPACITY_STATUSES if capacity is None else frozenset(capacity)
    tried = RETRYABLE_STATUSES if retryable is None else frozenset(retryable)
    return StatusRules(tried, (FAILURE_STATUSES | tried) - full, full)
