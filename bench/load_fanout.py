"""Fan-outs of a trainer: `python -m bench.load_fanout idle|busy|large`.

idle   one fan-out after another, and how much longer each takes than the engines do
busy   the same, then once more while so many streams run
large  one fan-out at a time that every engine answers with a mebibyte, and what the gateway's memory grows by
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus

import uvloop

from bench import procfs, wire
from bench.load_streams import StreamClient, Tally
from bench.plain_http import PlainClient

_WARMUP = 5
_LARGE_ROUNDS = 3
_SAMPLE_SECS = 0.002
_STREAMS_SETTLE_SECS = 1.0


async def fan_out(client: PlainClient, port: int, path: str) -> float:
    """The seconds that a trainer waits for one fan-out to all engines."""
    target = f"/v1/rl/engine/{path}?selector=worker_type%3Dregular"
    started_at = time.perf_counter()
    answer = await client.post(port, target, b"{}")
    waited_secs = time.perf_counter() - started_at
    if answer.status != HTTPStatus.OK:
        raise RuntimeError(f"a fan-out was answered {answer.status}: {answer.body[:200]!r}")
    return waited_secs


async def overhead_us(port: int, rounds: int, engine_ms: float) -> float:
    """The median of what a fan-out takes beyond its engines."""
    client = await PlainClient.to(port)
    waits = [await fan_out(client, port, wire.CONTROL_PATH) for _ in range(_WARMUP + rounds)][_WARMUP:]
    client.close()
    return (statistics.median(waits) - engine_ms / 1000) * 1e6


def _the_same(client: StreamClient) -> StreamClient:
    return client


@asynccontextmanager
async def running_streams(port: int, count: int) -> AsyncIterator[Tally]:
    """So many streams that begin anew whenever they end."""
    loop = asyncio.get_running_loop()
    tally = Tally(loop.create_future())
    request = wire.chat_request(port, wire.chat_body(stream=True))
    clients = [StreamClient(request, tally) for _ in range(count)]
    for client in clients:
        await loop.create_connection(partial(_the_same, client), "127.0.0.1", port)
    await asyncio.sleep(_STREAMS_SETTLE_SECS)
    yield tally
    for client in clients:
        client.close()


async def growth_kb(port: int, gateway_pid: int) -> float:
    """The most that the gateway's memory grows by while engines answer with a mebibyte each."""
    client = await PlainClient.to(port)
    await fan_out(client, port, wire.CONTROL_PATH)
    pids = procfs.process_tree(gateway_pid)
    before = procfs.rss_kb(pids)
    most = before
    done = asyncio.Event()

    async def watch() -> None:
        nonlocal most
        while not done.is_set():
            most = max(most, procfs.rss_kb(pids))
            await asyncio.sleep(_SAMPLE_SECS)

    watching = asyncio.ensure_future(watch())
    for _ in range(_LARGE_ROUNDS):
        await fan_out(client, port, wire.LARGE_PATH)
    done.set()
    await watching
    client.close()
    return float(most - before)


async def run(args: argparse.Namespace) -> dict[str, float]:
    if args.kind == "large":
        return {"growth_kb": await growth_kb(args.port, args.gateway_pid)}
    engine_us = args.engine_ms * 1000
    overhead = await overhead_us(args.port, args.rounds, args.engine_ms)
    if args.kind == "idle":
        return {"overhead_us": overhead}
    async with running_streams(args.port, args.streams) as tally:
        events = tally.events
        busy_us = await overhead_us(args.port, args.rounds, args.engine_ms) + engine_us
        flowed = tally.events - events
        if tally.ended.done():
            tally.ended.result()
    if not flowed:
        raise RuntimeError("the streams stood still")
    return {"busy_us": busy_us, "slower": busy_us / (overhead + engine_us), "events": float(flowed)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.load_fanout")
    parser.add_argument("kind", choices=("idle", "busy", "large"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--gateway-pid", type=int, required=True)
    parser.add_argument("--workers-pid", type=int, required=True)
    parser.add_argument("--engine-ms", type=float, default=0.0)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--streams", type=int, default=0)
    json.dump(uvloop.run(run(parser.parse_args())), sys.stdout)


if __name__ == "__main__":
    main()
