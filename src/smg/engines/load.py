"""An engine's load, one row a data-parallel rank, and how the JSON of a load route becomes rows.

Member names are SGLang's, which other servers of this route have taken over. What is made of the rows, sums and
thresholds, is the fleet's business.

Engines are believed or not believed as a whole: one number that steers placement and makes no sense voids the report.
Members that are only shown are left out instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

MAX_RANKS = 1024
MAX_COUNT = 10**12
"""No engine holds or does more of anything; beyond it a number is a fault."""

_MAX_MEMBERS = 32
_MAX_TEXT = 64
_ROUNDING = 0.5
"""How far above 1 a share may come out, pools being counted by different hands; more is another unit."""

T = TypeVar("T")
Scalar = int | float | str
Section = Mapping[str, Scalar]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLoad:
    """What one rank reports; None is what it does not say.

    Sizes are in tokens, `gen_throughput` in tokens a second, `token_usage`, `cache_hit_rate` and `utilization` shares
    of 1. The sections hold whatever else the engine tells about memory, queues and a split deployment.
    """

    dp_rank: int = 0
    num_running_reqs: int = 0
    num_waiting_reqs: int = 0
    num_waiting_uncached_tokens: int | None = None
    num_used_tokens: int | None = None
    max_total_num_tokens: int | None = None
    token_usage: float | None = None
    gen_throughput: float | None = None
    cache_hit_rate: float | None = None
    utilization: float | None = None
    max_running_requests: int | None = None
    memory: Section | None = None
    queues: Section | None = None
    disagg: Section | None = None


Ranks = tuple[RankLoad, ...]


class _Senseless(ValueError):  # noqa: N818  it is about the engine's answer
    """A number that steers placement is none."""


def read_rows(members: Mapping[str, Any]) -> Ranks | None:
    """The rows of a load route's JSON object, none while the engine has not counted yet; None if it is no report."""
    rows = members.get("loads")
    if not isinstance(rows, list) or len(rows) > MAX_RANKS:
        return None
    try:
        return _numbered([_row(row) for row in rows], [_rank(row) for row in rows])
    except _Senseless:
        return None


def _numbered(rows: Sequence[RankLoad], ranks: Sequence[int | None]) -> Ranks:
    """The rows under their own rank numbers; by position where those are not there or not distinct.

    A gateway behind a gateway reports many engines, each with a rank 0.
    """
    known = [rank for rank in ranks if rank is not None]
    numbers = known if len(set(known)) == len(rows) else range(len(rows))
    return tuple([replace(row, dp_rank=rank) for row, rank in zip(rows, numbers, strict=True)])


def count(value: Any) -> int | None:
    """A whole number from 0 to `MAX_COUNT`, or None."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= MAX_COUNT else None


def amount(value: Any) -> float | None:
    """A finite number from 0 to `MAX_COUNT`, or None."""
    return float(value) if type(value) in _NUMBERS and 0 <= value <= MAX_COUNT else None


def share(value: Any) -> float | None:
    """A number from 0 to 1, or None; what a rounding put above 1 is 1."""
    number = amount(value)
    return min(number, 1.0) if number is not None and number <= 1 + _ROUNDING else None


_NUMBERS = frozenset({int, float})


def _row(row: Any) -> RankLoad:
    if not isinstance(row, dict):
        raise _Senseless
    return RankLoad(
        num_running_reqs=_required(row, "num_running_reqs"),
        num_waiting_reqs=_required(row, "num_waiting_reqs"),
        num_waiting_uncached_tokens=_optional(row, "num_waiting_uncached_tokens", count),
        token_usage=_optional(row, "token_usage", share),
        gen_throughput=_optional(row, "gen_throughput", amount),
        num_used_tokens=count(row.get("num_used_tokens")),
        max_total_num_tokens=count(row.get("max_total_num_tokens")),
        cache_hit_rate=share(row.get("cache_hit_rate")),
        utilization=share(row.get("utilization")),
        max_running_requests=count(row.get("max_running_requests")),
        memory=_section(row.get("memory")),
        queues=_section(row.get("queues")),
        disagg=_section(row.get("disagg")) or _section(row.get("disaggregation")),
    )


def _rank(row: dict[str, Any]) -> int | None:
    return count(row.get("dp_rank"))


def _required(row: dict[str, Any], member: str) -> int:
    value = count(row.get(member))
    if value is None:
        raise _Senseless
    return value


def _optional(row: dict[str, Any], member: str, read: Callable[[Any], T | None]) -> T | None:
    given = row.get(member)
    value = read(given)
    if value is None and given is not None:
        raise _Senseless
    return value


def _section(value: Any) -> Section | None:
    """The plain members of a section, so that nothing large or nested is kept; None if there are none."""
    if not isinstance(value, dict) or len(value) > _MAX_MEMBERS:
        return None
    return {name: member for name, member in value.items() if len(name) <= _MAX_TEXT and _is_plain(member)} or None


def _is_plain(member: Any) -> bool:
    if isinstance(member, str):
        return len(member) <= _MAX_TEXT
    return type(member) in _NUMBERS and -MAX_COUNT <= member <= MAX_COUNT
