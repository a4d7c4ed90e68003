"""What choosing a worker costs, and what the memory of prompts weighs: `python -m bench.selection`.

Policies are called as the selector calls them, with one tuple of candidates that stays the same and requests that were
seen before, so the figures are those of a warm gateway. A figure is the best of several batches: what else the machine
did only ever adds to it. The fleet reports its load, which is the more expensive case.
"""

import argparse
import gc
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.hints import NO_HINTS, Hints
from smg.fleet.policies import POLICIES, load
from smg.fleet.policies.base import Policy, PolicyContext
from smg.fleet.worker import LoadReport, Status, Worker

FLEETS = (10, 100, 1000)
# Different requests that take turns: enough that no cache of the processor holds all their prompts.
REQUESTS = 64
BATCHES = 5
PROMPTS = 1_000_000
PROMPT_BYTES = 4096
KIB = 1024

Cells = Sequence[str]


@dataclass(frozen=True)
class Row:
    """A policy, its options if they are not the defaults, and what its requests carry."""

    policy: str
    shown: str
    request: Callable[[int], Hints] = lambda _: NO_HINTS
    options: dict[str, Any] = field(default_factory=dict)


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
    Row("least_load", "with a cap on waiting", options={"least_load_max_waiting_requests": 100}),
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
    parser.add_argument(
        "--prompts", type=int, default=PROMPTS, help="distinct prompts to remember, 0: none (1 million)"
    )
    args = parser.parse_args()
    rows = [row for row in ROWS if args.only is None or row.policy in args.only]
    print(
        table(("policy", "requests", *(f"{count:,} workers" for count in FLEETS)), selection_cells(rows, args.seconds))
    )
    if args.prompts:
        print(f"\n{args.prompts:,} distinct prompts of {PROMPT_BYTES:,} bytes, one after the other")
        print(table(("index", "holds", "memory", "each", "longest"), memory_cells(args.prompts)))
    return 0


# --- what a choice costs


def selection_cells(rows: Sequence[Row], seconds: float) -> Iterator[Cells]:
    for row in rows:
        costs = [f"{selection_us(row, count, seconds):.2f} µs" for count in FLEETS]
        yield row.policy, row.shown, *costs


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
            start = time.perf_counter()
            for _ in range(rounds):
                for hints in requests:
                    select(candidates, hints)
            spent = time.perf_counter() - start
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


# --- what remembering weighs


@dataclass(frozen=True)
class Memory:
    """An index, and the prompts it is given."""

    shown: str
    request: Callable[[int], Hints]
    held: str
    options: dict[str, Any] = field(default_factory=dict)


def distinct_text(number: int) -> Hints:
    return Hints(text=f"{number:016x}".ljust(PROMPT_BYTES, "."))


def distinct_tokens(number: int) -> Hints:
    return Hints(tokens=[number, *_TAIL])


_TAIL = range(PROMPT_BYTES // 4 - 1)

MEMORIES = (
    Memory("tree of text", distinct_text, "chars"),
    Memory("tree of tokens", distinct_tokens, "tokens"),
    Memory("hash of heads", distinct_tokens, "placements", {"cache_index": "hash", "cache_boundaries": (256, 1024)}),
)


def memory_cells(prompts: int) -> Iterator[Cells]:
    """One row an index, each filled in a process of its own, whose memory is that of nothing else."""
    for number in range(len(MEMORIES)):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            yield pool.apply(_fill, (number, prompts))


def _fill(number: int, prompts: int) -> Cells:
    memory = MEMORIES[number]
    policy = make(Row("cache_aware", "", options=memory.options))
    workers = fleet(8)
    before = _resident_bytes()
    total = longest = 0.0
    for prompt in range(prompts):
        hints = memory.request(prompt)
        start = time.perf_counter()
        policy.select(workers, hints)
        spent = time.perf_counter() - start
        total += spent
        longest = max(longest, spent)
    grown = _resident_bytes() - before
    return (
        memory.shown,
        f"{policy.sizes()[memory.held]:,} {memory.held}",
        f"{grown / 2**20:,.0f} MiB",
        f"{total / prompts * 1e6:.1f} µs",
        f"{longest * 1e3:.1f} ms",
    )


def _resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def table(headings: Cells, rows: Iterator[Cells]) -> str:
    lines = [headings, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


if __name__ == "__main__":
    sys.exit(main())
