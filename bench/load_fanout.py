"""Fan-outs of a trainer while something else is to be seen: `python -m bench.load_fanout busy|large`.

busy   one fan-out after another, and once more while so many streams run
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
_STREAMS_SETTLE_SECS = 1.0


async def fan_out(client: PlainClient, port: int, path: str) -> float:
    """The seconds that a trainer waits for one fan-out to all engines."""
    started_at = time.perf_counter()
    answer = await client.ask(wire.fan_out(path, port))
    waited_secs = time.perf_counter() - started_at
    if answer.status != HTTPStatus.OK:
        raise RuntimeError(f"a fan-out was answered {answer.status}: {answer.body[:200]!r}")
    return waited_secs


async def waited_secs(port: int, rounds: int) -> float:
    """The median of what fan-outs take."""
    client = await PlainClient.to(port)
    waits = [await fan_out(client, port, wire.CONTROL_PATH) for _ in range(_WARMUP + rounds)][_WARMUP:]
    client.close()
    return statistics.median(waits)


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
    procfs.forget_peak_rss(pids)
    before = procfs.rss_kb(pids)
    for _ in range(_LARGE_ROUNDS):
        await fan_out(client, port, wire.LARGE_PATH)
    client.close()
    return float(procfs.peak_rss_kb(pids) - before)


async def beside_streams(args: argparse.Namespace) -> dict[str, float]:
    idle_secs = await waited_secs(args.port, args.rounds)
    async with running_streams(args.port, args.streams) as tally:
        events = tally.events
        busy_secs = await waited_secs(args.port, args.rounds)
        flowed = tally.events - events
        if tally.ended.done():
            tally.ended.result()
    if not flowed:
        raise RuntimeError("the streams stood still")
    return {"busy_us": busy_secs * 1e6, "slower": busy_secs / idle_secs, "events": float(flowed)}


def run(args: argparse.Namespace) -> dict[str, float]:
    if args.kind == "large":
        return {"growth_kb": uvloop.run(growth_kb(args.port, args.gateway_pid))}
    return uvloop.run(beside_streams(args))


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.load_fanout")
    parser.add_argument("kind", choices=("busy", "large"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--gateway-pid", type=int, required=True)
    parser.add_argument("--workers-pid", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--streams", type=int, default=0)
    json.dump(run(parser.parse_args()), sys.stdout)


if __name__ == "__main__":
    main()
