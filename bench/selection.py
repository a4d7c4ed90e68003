"""What choosing a worker costs: `python -m bench.selection`.

Policies are called as the selector calls them, with one tuple of candidates that stays the same and requests that were
seen before, so the figures are those of a warm gateway. A figure is processor time, and the best of several batches:
what else the machine did only ever adds to it. The fleet reports its load, which is the more expensive case.
"""

import argparse
import gc
import json
import random
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.report import aligned
from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.hints import NO_HINTS, Hints
from smg.fleet.policies import POLICIES, load
from smg.fleet.policies.base import Policy, PolicyContext
from smg.fleet.worker import LoadReport, Status, Worker

FLEETS = (10, 100, 1000)
# Different requests that take turns: enough that no cache of the processor holds all their prompts.
REQUESTS = 64
BATCHES = 5
KIB = 1024


@dataclass(frozen=True)
class Row:
    """A policy, its options if they are not the defaults, and what its requests carry."""

    policy: str
    shown: str
    request: Callable[[int], Hints] = lambda _: NO_HINTS
    options: dict[str, Any] = field(default_factory=dict)
    name: str = ""  # of the figure it belongs to, if that is not the policy's

    @property
    def figure(self) -> str:
        return f"{self.name or self.policy}_us"


def text(kib: int) -> Callable[[int], Hints]:
    """Prompts of `kib` KiB that share a quarter with each other, as chats with one system prompt do."""
    shared = "You are a helpful assistant. " * kib * 9
    return lambda number: Hints(text=(shared[: kib * KIB // 4] + f"{number * 7919} " * kib * KIB)[: kib * KIB])


def tokens(kib: int) -> Callable[[int], Hints]:
    """As many token ids as `kib` KiB of English make, at four characters a token."""
    count = kib * KIB // 4
    return lambda number: Hints(tokens=[*range(count // 4), *range(number * count, number * count + count * 3 // 4)])


def key(number: int) -> Hints:
    return Hints(routing_key=f"session-{number}")


BOUNDARIES = {"cache_index": "hash", "cache_boundaries": (256, 1024, 4096)}

ROWS = (
    Row("random", "-"),
    Row("round_robin", "-"),
    Row("passthrough", "-"),
    Row("power_of_two", "-"),
    Row("least_load", "-"),
    # A cap that no number of choices reaches, as reports never renew here.
    Row(
        "least_load",
        "with a cap on waiting",
        options={"least_load_max_waiting_requests": 10**9},
        name="least_load_capped",
    ),
    Row("consistent_hashing", "a key", key),
    Row("manual", "a key", key),
    Row("prefix_hash", "a key", key),
    *(Row("prefix_hash", f"{kib} KiB of text", text(kib)) for kib in (2, 32)),
    Row("bucket", "2 KiB of text", text(2)),
    *(Row("cache_aware", f"{kib} KiB of text", text(kib)) for kib in (2, 8, 32)),
    Row("cache_aware", "8 KiB of text, not known", text(8), {"cache_threshold": 1.0}),
    *(Row("cache_aware", f"{kib} KiB in tokens", tokens(kib)) for kib in (2, 8, 32)),
    *(Row("cache_aware", f"{kib} KiB in tokens, hashed", tokens(kib), BOUNDARIES) for kib in (2, 8, 32)),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.selection", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.1, help="time for a batch (%(default)s)")
    parser.add_argument("--only", nargs="+", metavar="POLICY", choices=sorted(POLICIES), help="run these: %(choices)s")
    parser.add_argument("--json", action="store_true", help="print one object: of each figure its most expensive row")
    args = parser.parse_args()
    rows = [row for row in ROWS if args.only is None or row.policy in args.only]
    costs = ((row, [selection_us(row, count, args.seconds) for count in FLEETS]) for row in rows)
    if args.json:
        print(json.dumps(figures(costs)))
    else:
        shown = ((row.policy, row.shown, *(f"{us:.2f} µs" for us in costs_us)) for row, costs_us in costs)
        headings = ("policy", "requests", *(f"{count:,} workers" for count in FLEETS))
        print(aligned([headings, *shown]))
    return 0


def figures(costs: Iterable[tuple[Row, Sequence[float]]]) -> Mapping[str, float]:
    """Of each figure the cost among the most workers, and how much that is of the cost among the fewest."""
    worst: dict[str, float] = {}
    for row, costs_us in costs:
        for key, figure in ((row.figure, costs_us[-1]), ("growth", costs_us[-1] / costs_us[0])):
            worst[key] = max(worst.get(key, 0.0), figure)
    return worst


def selection_us(row: Row, workers: int, seconds: float) -> float:
    """Microseconds of one choice."""
    policy, candidates = make(row), fleet(workers)
    requests = [row.request(number) for number in range(REQUESTS)]
    select = policy.select
    for hints in requests * 2:
        select(candidates, hints)
    rounds = 1
    best = float("inf")
    gc.disable()
    try:
        for _ in range(BATCHES):
            start = time.process_time()
            for _ in range(rounds):
                for hints in requests:
                    select(candidates, hints)
            spent = time.process_time() - start
            best = min(best, spent / rounds)
            rounds = max(1, int(rounds * seconds / spent))
    finally:
        gc.enable()
    return best / REQUESTS * 1e6


def make(row: Row) -> Policy:
    policy = load(row.policy)
    return policy(PolicyContext(random.Random(1), time.monotonic), policy.options(**row.options))


def fleet(count: int) -> tuple[Worker, ...]:
    """Workers with different loads and reports."""
    chance = random.Random(1)
    return tuple(
        Worker(
            str(number),
            url,
            url,
            Breaker(BreakerOptions()),
            status=Status.READY,
            load=chance.randrange(4),
            report=LoadReport(waiting_requests=chance.randrange(4), token_usage=chance.random()),
        )
        for number, url in ((number, f"http://10.0.{number // 250}.{number % 250}:8000") for number in range(count))
    )


if __name__ == "__main__":
    sys.exit(main())
