"""The load generator of streamed answers: `python -m bench.load_streams steady|held|aborted`.

steady   keeps so many streams open for a time, each restarted when it ends, and counts their events
held     opens so many streams, says so when each has sent its first event, and holds them until it is killed
aborted  opens streams and drops each connection at its first event, until so many were dropped
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast

import uvloop

from bench import wire
from bench.window import Window

_OPENING_SECS = 60.0


@dataclass(slots=True)
class Tally:
    ended: "asyncio.Future[None]"  # by a failure, or by the number of streams wanted
    limit: int = 0
    begun: int = 0
    finished: int = 0
    events: int = 0
    reads: int = 0

    def fail(self, why: str) -> None:
        if not self.ended.done():
            self.ended.set_exception(RuntimeError(why))

    def begin(self) -> None:
        self.begun += 1
        if self.begun == self.limit and not self.ended.done():
            self.ended.set_result(None)


class StreamClient(asyncio.Protocol):
    """One connection with one stream at a time."""

    def __init__(self, request: bytes, tally: Tally, on_abort: Callable[[], None] | None = None) -> None:
        self._request = request
        self._tally = tally
        self._on_abort = on_abort
        self._head = b""
        self._in_body = False
        self.stopping = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.stopping:
            self._tally.fail(f"the gateway closed a connection ({exc})")

    def close(self) -> None:
        self.stopping = True
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        tally = self._tally
        if not self._in_body:
            data = self._head = self._head + data
            if wire.EVENT_MARK not in data:
                self._check(data)
                return
            self._first_event(data)
        tally.reads += 1
        tally.events += data.count(wire.EVENT_MARK)
        if data.endswith(wire.LAST_CHUNK):
            tally.finished += 1
            self._in_body = False
            if not self.stopping:
                self._transport.write(self._request)

    def _first_event(self, data: bytes) -> None:
        self._check(data)
        self._in_body, self._head = True, b""
        self._tally.begin()
        if self._on_abort is not None:
            self.close()
            self._on_abort()

    def _check(self, data: bytes) -> None:
        if len(data) >= len(b"HTTP/1.1 200") and not data.startswith(b"HTTP/1.1 200"):
            self._tally.fail(f"the gateway answered {data[:400]!r}")


async def open_streams(args: argparse.Namespace, tally: Tally, over_secs: float) -> list[StreamClient]:
    """`args.streams` connections, their starts spread evenly so that their events are too."""
    loop = asyncio.get_running_loop()
    request = wire.chat_request(args.port, wire.chat_body(stream=True))
    clients = []
    for _ in range(args.streams):
        _, client = await loop.create_connection(partial(StreamClient, request, tally), "127.0.0.1", args.port)
        clients.append(client)
        await asyncio.sleep(over_secs / args.streams)
    return clients


async def run_steady(args: argparse.Namespace) -> None:
    tally = Tally(asyncio.get_running_loop().create_future())
    clients = await open_streams(args, tally, args.warmup_secs)
    window = Window(args.gateway_pid, args.workers_pid)
    window.open()
    tally.events = tally.reads = tally.finished = 0
    await asyncio.wait([tally.ended], timeout=args.seconds)
    figures = window.close()
    _raise_failure(tally)
    for client in clients:
        client.close()
    figures |= {
        "events": float(tally.events),
        "streams_finished": float(tally.finished),
        "events_per_read": tally.events / max(1, tally.reads),
        "events_per_sec": tally.events / figures["wall_secs"],
        "cpu_per_event_us": figures["gateway_cpu_secs"] / max(1, tally.events) * 1e6,
    }
    print(json.dumps(figures))


async def run_held(args: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    tally = Tally(loop.create_future(), limit=args.streams)
    held = await open_streams(args, tally, 0)
    await asyncio.wait([tally.ended], timeout=_OPENING_SECS)
    _raise_failure(tally)
    if tally.begun < args.streams:
        raise RuntimeError(f"only {tally.begun} of {args.streams} streams began")
    print(json.dumps({"streams": len(held)}), flush=True)
    await asyncio.Event().wait()


async def run_aborted(args: argparse.Namespace) -> None:
    """`args.streams` at a time, `args.total` in all."""
    loop = asyncio.get_running_loop()
    tally = Tally(loop.create_future(), limit=args.total)
    request = wire.chat_request(args.port, wire.chat_body(stream=True))
    opening: set[asyncio.Task[object]] = set()

    def open_next() -> None:
        if tally.ended.done():
            return
        client = partial(StreamClient, request, tally, open_next)
        task = loop.create_task(loop.create_connection(client, "127.0.0.1", args.port))
        opening.add(task)
        task.add_done_callback(opening.discard)

    for _ in range(args.streams):
        open_next()
    await asyncio.wait([tally.ended], timeout=args.seconds)
    _raise_failure(tally)
    if tally.begun < args.total:
        raise RuntimeError(f"only {tally.begun} of {args.total} streams in {args.seconds:.0f} s")
    print(json.dumps({"aborted": tally.begun}))


def _raise_failure(tally: Tally) -> None:
    if tally.ended.done():
        tally.ended.result()


_MODES = {"steady": run_steady, "held": run_held, "aborted": run_aborted}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.load_streams")
    parser.add_argument("mode", choices=_MODES)
    for name in ("--port", "--gateway-pid", "--workers-pid", "--streams"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--total", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--warmup-secs", type=float, default=0.5)
    args = parser.parse_args()
    try:
        uvloop.run(_MODES[args.mode](args))
    except (RuntimeError, OSError) as error:
        sys.exit(f"bench.load_streams: {error}")


if __name__ == "__main__":
    main()
