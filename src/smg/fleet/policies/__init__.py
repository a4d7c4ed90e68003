"""Routing policies, one a file: a table from a policy's name to its class, imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from smg.lazy import resolve

if TYPE_CHECKING:
    from smg.fleet.policies.base import Policy

POLICIES: dict[str, str] = {
    "bucket": "smg.fleet.policies.bucket:Bucket",
    "cache_aware": "smg.fleet.policies.cache_aware:CacheAware",
    "consistent_hashing": "smg.fleet.policies.consistent_hashing:ConsistentHashing",
    "least_load": "smg.fleet.policies.least_load:LeastLoad",
    "manual": "smg.fleet.policies.manual:Manual",
    "passthrough": "smg.fleet.policies.passthrough:Passthrough",
    "power_of_two": "smg.fleet.policies.power_of_two:PowerOfTwo",
    "prefix_hash": "smg.fleet.policies.prefix_hash:PrefixHash",
    "random": "smg.fleet.policies.random_choice:RandomChoice",
    "round_robin": "smg.fleet.policies.round_robin:RoundRobin",
}

# Made for the prefill half of split engines, and for nobody else.
PREFILL_ONLY = frozenset({"bucket"})


def load(name: str) -> type[Policy]:
    """The class of a policy. Raises KeyError for a name that is not in the table."""
    return cast("type[Policy]", resolve(POLICIES[name]))
