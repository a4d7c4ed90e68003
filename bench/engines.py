"""Simulated engines: `python -m bench.engines`, several of them in one process, each on a port of its own.

Unlike the fake workers of `workers.py` they behave like engines: requests take time and wait for a place, and what
was prefilled stays in a prefix cache of limited size. `GET /sim/state` of each says what became of it.
"""

import argparse
import asyncio
import json

import uvloop

from bench import wire
from smg.sim.engine import SimEngine
from smg.sim.options import SimOptions


async def serve(options: SimOptions, count: int) -> None:
    """Listen on free ports, print them as one JSON line, and serve until killed."""
    engines = [SimEngine(options) for _ in range(count)]
    for engine in engines:
        await engine.start()
    print(json.dumps([engine.port for engine in engines]), flush=True)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.engines")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--kv-capacity-tokens", type=int, required=True)
    parser.add_argument("--max-running-requests", type=int, required=True)
    parser.add_argument("--prefill-tokens-per-second", type=float, default=0.0)
    parser.add_argument("--tokens-per-second", type=float, default=0.0)
    flags = vars(parser.parse_args())
    count = flags.pop("count")
    uvloop.run(serve(SimOptions(model=wire.MODEL, **flags), count))


if __name__ == "__main__":
    main()
