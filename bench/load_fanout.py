"""Fan-outs of a trainer: `python -m bench.load_fanout idle|rested|busy|large`.

idle    one fan-out after another, and how much longer each takes than the slowest engine does
rested  the same with a rest before each, in which the gateways give up their connections
busy    the same as idle, compared with the time that engines should take, then once more while so many streams run
large   one fan-out at a time that every engine answers with a mebibyte, and what the gateway's memory grows by
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
from bench.lean_http import LeanClient
from bench.load_streams import StreamClient, Tally
from bench.plain_http import PlainClient
from bench.stats import percentile
from bench.window import Window

_TARGET = "/v1/rl/engine/{path}?selector=worker_type%3Dregular"
_BODY = b"{}"
_WARMUP = 5
_LARGE_ROUNDS = 3
_REST_SECS = 3.5  # longer than control connections are kept
_STREAMS_SETTLE_SECS = 1.0


class LeanTrainer:
    """A trainer that costs as little as a client can."""

    def __init__(self, port: int, engine_port: int) -> None:
        self._gateway = LeanClient(port)
        self._engine = LeanClient(engine_port)
        self._fan_out = wire.request("POST", _TARGET.format(path=wire.CONTROL_PATH), port, _BODY)
        self._slowest = wire.request("GET", f"/{wire.SLOWEST_PATH}", engine_port)

    def fan_out(self) -> tuple[float, float]:
        """How long a fan-out took, and how long its slowest engine, in seconds."""
        sent_at = time.perf_counter()
        report = self._gateway.ask(self._fan_out)
        took_secs = time.perf_counter() - sent_at
        check_report(json.loads(report))
        return took_secs, json.loads(self._engine.ask(self._slowest))


def check_report(report: dict[str, int]) -> None:
    """Raises RuntimeError unless every engine did what was asked."""
    if not report["total"] or report["succeeded"] != report["total"]:
        raise RuntimeError(f"{report['succeeded']} of {report['total']} engines did what was asked")


def measured(args: argparse.Namespace, *, rest_secs: float = 0.0) -> dict[str, float]:
    """Fan-outs to a fleet that does nothing else, with a rest before each."""
    trainer = LeanTrainer(args.port, args.engine_port)
    window = Window(args.gateway_pid, args.workers_pid)
    for _ in range(_WARMUP):
        trainer.fan_out()
    window.open()
    beyond_secs = []
    for _ in range(args.rounds):
        time.sleep(rest_secs)
        took_secs, slowest_secs = trainer.fan_out()
        beyond_secs.append(took_secs - slowest_secs)
    figures = window.close()
    beyond_secs.sort()
    return figures | {
        "overhead_us": statistics.median(beyond_secs) * 1e6,
        "overhead_p10_us": percentile(beyond_secs, 10) * 1e6,
        "overhead_p90_us": percentile(beyond_secs, 90) * 1e6,
        "cpu_us": figures["gateway_cpu_secs"] / args.rounds * 1e6,
    }


async def fan_out(client: PlainClient, port: int, path: str) -> float:
    """The seconds that a trainer waits for one fan-out to all engines."""
    started_at = time.perf_counter()
    answer = await client.post(port, _TARGET.format(path=path), _BODY)
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
    if args.kind == "idle":
        return measured(args)
    if args.kind == "rested":
        return measured(args, rest_secs=_REST_SECS)
    if args.kind == "large":
        return {"growth_kb": uvloop.run(growth_kb(args.port, args.gateway_pid))}
    return uvloop.run(beside_streams(args))


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.load_fanout")
    parser.add_argument("kind", choices=("idle", "rested", "busy", "large"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--gateway-pid", type=int, required=True)
    parser.add_argument("--workers-pid", type=int, required=True)
    parser.add_argument("--engine-port", type=int, required=True, help="of any of the engines")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--streams", type=int, default=0)
    json.dump(run(parser.parse_args()), sys.stdout)


if __name__ == "__main__":
    main()
