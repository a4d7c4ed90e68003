"""One caller with one request at a time: `python -m bench.load_alone`.

What it shows is the way through a gateway with nobody else on it, so the caller is as lean as can be: an event loop of
its own would be a part of every figure.
"""

import argparse
import json
import sys
import time

from bench import wire
from bench.lean_http import LeanClient
from bench.stats import percentile
from bench.window import Window


def run(args: argparse.Namespace) -> dict[str, float]:
    client = LeanClient(args.port)
    request = wire.chat_request(args.port, wire.chat_body())
    _latencies_secs(client, request, args.warmup_secs)
    window = Window(args.gateway_pid, args.workers_pid)
    window.open()
    latencies_secs = sorted(_latencies_secs(client, request, args.seconds))
    figures = window.close()
    return figures | {
        "requests": float(len(latencies_secs)),
        "cpu_us": figures["gateway_cpu_secs"] / len(latencies_secs) * 1e6,
        **{f"p{rank}_us": percentile(latencies_secs, rank) * 1e6 for rank in (50, 90, 99)},
    }


def _latencies_secs(client: LeanClient, request: bytes, secs: float) -> list[float]:
    latencies_secs = []
    now = time.perf_counter()
    end = now + secs
    while now < end:
        client.ask(request)
        asked_at, now = now, time.perf_counter()
        latencies_secs.append(now - asked_at)
    return latencies_secs


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.load_alone")
    for name in ("--port", "--gateway-pid", "--workers-pid"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--warmup-secs", type=float, default=0.5)
    json.dump(run(parser.parse_args()), sys.stdout)


if __name__ == "__main__":
    main()
