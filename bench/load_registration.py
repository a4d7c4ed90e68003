"""Registers many workers in one burst while requests go on: `python -m bench.load_registration`.

A few clients send a request every few milliseconds, at first undisturbed. Then all workers are posted, and the run
ends when the gateway counts every one of them as ready.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from http import HTTPStatus

import uvloop

from bench import wire
from bench.plain_http import PlainClient
from bench.stats import percentile

_CLIENTS = 4
_PERIOD_SECS = 0.01
_QUIET_SECS = 1.5
_POSTING = 8
_POLL_SECS = 0.02


async def send_requests(port: int, latencies_secs: list[float]) -> None:
    """One client, until cancelled. A late answer delays the next request: what waits is never more than one."""
    client = await PlainClient.to(port)
    body = wire.chat_request(port, wire.chat_body())
    while True:
        sent_at = time.perf_counter()
        answer = await client.ask(body)
        latency_secs = time.perf_counter() - sent_at
        if answer.status != HTTPStatus.OK:
            raise RuntimeError(f"a request was answered {answer.status}: {answer.body[:200]!r}")
        latencies_secs.append(latency_secs)
        await asyncio.sleep(max(0.0, _PERIOD_SECS - latency_secs))


async def register(port: int, workers: Sequence[int]) -> None:
    client = await PlainClient.to(port)
    for worker in workers:
        answer = await client.post(port, "/workers", json.dumps({"url": f"http://127.0.0.1:{worker}"}).encode())
        if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
            raise RuntimeError(f"a worker was answered {answer.status}: {answer.body[:200]!r}")
    client.close()


async def until_ready(port: int, count: int) -> None:
    client = await PlainClient.to(port)
    while await _ready(client, port) < count:  # noqa: ASYNC110  the gateway can only be asked
        await asyncio.sleep(_POLL_SECS)
    client.close()


async def _ready(client: PlainClient, port: int) -> int:
    return int(json.loads((await client.get(port, "/readiness")).body)["healthy_workers"])


async def run(args: argparse.Namespace) -> dict[str, float]:
    workers = [int(worker) for worker in args.newcomers.split(",")]
    latencies_secs: list[float] = []
    async with asyncio.timeout(args.seconds), asyncio.TaskGroup() as group:
        clients = [group.create_task(send_requests(args.port, latencies_secs)) for _ in range(_CLIENTS)]
        await asyncio.sleep(_QUIET_SECS)
        quiet, latencies_secs[:] = sorted(latencies_secs), []
        begun_at = time.perf_counter()
        await asyncio.gather(*(register(args.port, workers[first::_POSTING]) for first in range(_POSTING)))
        accepted_secs = time.perf_counter() - begun_at
        await until_ready(args.port, len(workers) + args.present)
        registered_secs = time.perf_counter() - begun_at
        for client in clients:
            client.cancel()
    during = sorted(latencies_secs)
    return {
        "accepted_secs": accepted_secs,
        "registered_secs": registered_secs,
        "quiet_p50_us": percentile(quiet, 50) * 1e6,
        "quiet_p99_us": percentile(quiet, 99) * 1e6,
        "during_p50_us": percentile(during, 50) * 1e6,
        "during_p99_us": percentile(during, 99) * 1e6,
        "during_max_us": during[-1] * 1e6,
        "requests": float(len(during)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.load_registration")
    for name in ("--port", "--gateway-pid", "--workers-pid", "--present"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--newcomers", required=True, help="their ports, separated by commas")
    parser.add_argument("--seconds", type=float, required=True)
    try:
        print(json.dumps(uvloop.run(run(parser.parse_args()))))
    except* TimeoutError:
        sys.exit("bench.load_registration: the workers were not ready in time")
    except* (RuntimeError, OSError, EOFError) as group:
        sys.exit(f"bench.load_registration: {group.exceptions[0]}")


if __name__ == "__main__":
    main()
