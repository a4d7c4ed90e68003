"""Load out of an engine's Prometheus metrics, for engines that have no load route.

The text may be megabytes long, comes from outside, and is read every few seconds for every worker on the loop that
serves requests. So this finds the handful of wanted lines by their names and looks at nothing else; a full parser, such
as prometheus_client's, takes tens of milliseconds for the rest and gives up at the first line it does not understand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from smg.engines.load import MAX_RANKS, RankLoad, Ranks, amount, count, share

_SAMPLE = re.compile(rb"(?:\{([^\n]*)\})?[ \t]+(\S+)")
_NEWLINE = 0x0A
_NAME_ENDS = frozenset({b"{", b" ", b"\t"})


@dataclass(frozen=True, slots=True)
class Gauges:
    """The names an engine gives its gauges; `rank_label` tells data-parallel ranks apart.

    `usage` is the share of the KV cache in use, under the names of different versions, the newest first.
    """

    running: str
    waiting: str
    usage: tuple[str, ...]
    throughput: str | None = None
    rank_label: str = "dp_rank"


def read_gauges(text: bytes, families: Iterable[Gauges]) -> Ranks | None:
    """A row a rank from the first family that the text has; None if it has none of them, or one makes no sense.

    Without a gauge of the KV cache there is no report: requests alone do not tell whether an engine is full.
    """
    for names in families:
        usage = _first(text, names.usage, names.rank_label)
        if usage:
            return _rows(text, names, usage)
    return None


def _first(text: bytes, names: Sequence[str], rank_label: str) -> Mapping[int, float] | None:
    for name in names:
        found = _samples(text, name, rank_label)
        if found is None or found:
            return found
    return None


def _rows(text: bytes, names: Gauges, usage: Mapping[int, float]) -> Ranks | None:
    running = _samples(text, names.running, names.rank_label)
    waiting = _samples(text, names.waiting, names.rank_label)
    throughput = _samples(text, names.throughput, names.rank_label) if names.throughput else {}
    if running is None or waiting is None or throughput is None:
        return None
    shares = {rank: share(used) for rank, used in usage.items()}
    if None in shares.values():
        return None
    return tuple(
        [
            RankLoad(
                dp_rank=rank,
                num_running_reqs=round(running.get(rank, 0)),
                num_waiting_reqs=round(waiting.get(rank, 0)),
                token_usage=shares.get(rank),
                gen_throughput=throughput.get(rank),
            )
            for rank in sorted({*usage, *running, *waiting})
        ]
    )


def _samples(text: bytes, name: str, rank_label: str) -> dict[int, float] | None:
    """The values of a metric by rank; None if one makes no sense.

    Several series of one rank are parts of it or repeat each other (its processes, its priorities); the largest is
    the whole.
    """
    needle, label = name.encode(), _label(rank_label)
    found: dict[int, float] = {}
    at = text.find(needle)
    while at >= 0:
        behind = at + len(needle)
        if _is_whole_name(text, at, behind):
            sample = _SAMPLE.match(text, behind)
            rank, value = (_rank(sample[1], label), _value(sample[2])) if sample else (None, None)
            if rank is None or value is None or len(found) >= MAX_RANKS:
                return None
            found[rank] = max(value, found.get(rank, 0.0))
        at = text.find(needle, behind)
    return found


def _is_whole_name(text: bytes, at: int, behind: int) -> bool:
    """Whether a sample's line begins here, and not one of a longer name or a comment."""
    return (at == 0 or text[at - 1] == _NEWLINE) and text[behind : behind + 1] in _NAME_ENDS


def _label(name: str) -> re.Pattern[bytes]:
    return re.compile(rb'(?:^|,)[ \t]*%b="([^"\\]*)"' % name.encode())


def _rank(labels: bytes | None, label: re.Pattern[bytes]) -> int | None:
    """The rank that a series is about, 0 if it does not say; None if it is no number."""
    named = label.search(labels) if labels else None
    if named is None or not named[1]:
        return 0
    return count(int(named[1])) if named[1].isdigit() and len(named[1]) <= len(str(MAX_RANKS)) else None


def _value(text: bytes) -> float | None:
    try:
        return amount(float(text))
    except ValueError:
        return None
