"""What the memory of prompts weighs: `python -m bench.index_memory`.

Distinct prompts are placed one after the other, many more than an index may hold, so it is full soon and drops one
prompt for each that comes. Each index fills in a process of its own, whose memory is that of nothing else.
"""

import argparse
import gc
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench import procfs
from bench.report import aligned
from bench.selection import Row, fleet, make
from smg.fleet.hints import Hints

PROMPTS = 1_000_000
PROMPT_BYTES = 4096

Figures = Mapping[str, float]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.index_memory", description=__doc__)
    parser.add_argument("--prompts", type=int, default=PROMPTS, help="how many (1 million)")
    parser.add_argument("--json", action="store_true", help="print one object")
    args = parser.parse_args()
    filled = ((memory, fill(memory.name, args.prompts)) for memory in MEMORIES)
    if args.json:
        print(json.dumps({f"{memory.name}_{key}": value for memory, found in filled for key, value in found.items()}))
        return 0
    print(f"{args.prompts:,} distinct prompts of {PROMPT_BYTES:,} bytes, one after the other")
    rows = ((memory.shown, f"{found['held']:,.0f} {memory.held}", *_cells(found)) for memory, found in filled)
    print(aligned([("index", "holds", "memory", "each", "longest"), *rows]))
    return 0


def _cells(found: Figures) -> Iterator[str]:
    yield f"{found['kb'] / 1024:,.0f} MiB"
    yield f"{found['each_us']:.1f} µs"
    yield f"{found['longest_us'] / 1e3:.1f} ms"


@dataclass(frozen=True)
class Memory:
    """An index, and the prompts it is given."""

    name: str
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
    Memory("text", "tree of text", distinct_text, "chars"),
    Memory("tokens", "tree of tokens", distinct_tokens, "tokens"),
    Memory(
        "heads",
        "hash of heads",
        distinct_tokens,
        "placements",
        {"cache_index": "hash", "cache_boundaries": (256, 1024)},
    ),
)


def fill(name: str, prompts: int) -> Figures:
    """What an index holds after so many prompts, its resident memory, and the time a choice took."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found: Figures = pool.apply(_fill, (name, prompts))
    return found


def _fill(name: str, prompts: int) -> Figures:
    memory = next(memory for memory in MEMORIES if memory.name == name)
    policy = make(Row("cache_aware", "", options=memory.options))
    workers = fleet(8)
    before = _resident_kb()
    total = longest = 0.0
    for prompt in range(prompts):
        hints = memory.request(prompt)
        start = time.process_time()
        policy.select(workers, hints)
        spent = time.process_time() - start
        total += spent
        longest = max(longest, spent)
    return {
        "held": float(policy.sizes()[memory.held]),
        "kb": float(_resident_kb() - before),
        "each_us": total / prompts * 1e6,
        "longest_us": longest * 1e6,
    }


def _resident_kb() -> int:
    gc.collect()
    return procfs.rss_kb([os.getpid()])


if __name__ == "__main__":
    sys.exit(main())
