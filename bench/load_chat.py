"""The load generator of plain requests: `python -m bench.load_chat`.

A closed loop: each connection sends its next request as soon as its answer is complete, the same one again or
the next turn of its conversations. The figures go to standard output as one JSON line. An answer other than 200
or a lost connection ends the run with an error: a gateway that fails is not measured.
"""

import argparse
import array
import asyncio
import itertools
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import uvloop

from bench import conversations, wire
from bench.stats import percentile
from bench.window import Window


@dataclass(slots=True)
class Tally:
    """What all connections of a run share."""

    ended: "asyncio.Future[None]"  # by the limit, or by a failure
    limit: int = 0  # 0: no limit, the clock ends the run
    done: int = 0
    latencies_secs: "array.array[float]" = field(default_factory=lambda: array.array("d"))

    def fail(self, why: str) -> None:
        if not self.ended.done():
            self.ended.set_exception(RuntimeError(why))

    def count(self, latency_secs: float) -> bool:
        """Count one answer; False when it was the last one wanted."""
        self.done += 1
        self.latencies_secs.append(latency_secs)
        if self.done != self.limit:
            return not self.ended.done()
        if not self.ended.done():
            self.ended.set_result(None)
        return False


class ChatClient(asyncio.Protocol):
    def __init__(self, requests: Iterator[bytes], tally: Tally) -> None:
        self._requests = requests
        self._tally = tally
        self._buffer = b""
        self._sent_at = 0.0
        self.stopping = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.stopping:
            self._tally.fail(f"the gateway closed a connection ({exc})")

    def close(self) -> None:
        self.stopping = True
        self._transport.abort()

    def _send(self) -> None:
        request = next(self._requests)
        self._sent_at = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        if self._buffer:
            data = self._buffer + data
        if not is_complete(data):
            self._buffer = data
            return
        now = time.perf_counter()
        self._buffer = b""
        if not data.startswith(b"HTTP/1.1 200"):
            self._tally.fail(f"the gateway answered {data[:400]!r}")
            return
        if self._tally.count(now - self._sent_at):
            self._send()


def is_complete(data: bytes) -> bool:
    """Whether these bytes are one whole answer: by its length, or by the last chunk."""
    end = data.find(wire.HEAD_END)
    if end < 0:
        return False
    length = wire.content_length(data[:end])
    if length is None:
        return data.endswith(wire.LAST_CHUNK)
    return len(data) >= end + len(wire.HEAD_END) + length


async def run(args: argparse.Namespace) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    tally = Tally(loop.create_future())
    clients = []
    for requests in [_requests(args, connection) for connection in range(args.connections)]:
        _, client = await loop.create_connection(partial(ChatClient, requests, tally), "127.0.0.1", args.port)
        clients.append(client)
    await _wait(tally, args.warmup_secs)
    tally.done = 0
    tally.limit = args.requests
    del tally.latencies_secs[:]
    window = Window(args.gateway_pid, args.workers_pid)
    window.open()
    await _wait(tally, args.seconds)
    figures = window.close() | _figures(tally)
    figures["rps"] = figures["requests"] / figures["wall_secs"]
    figures["cpu_us"] = figures["gateway_cpu_secs"] / figures["requests"] * 1e6
    for client in clients:
        client.close()
    return figures


def _requests(args: argparse.Namespace, connection: int) -> Iterator[bytes]:
    """What a connection sends: its own request over and over, or the conversations that are its share."""
    if args.conversations:
        users = range(connection, args.conversations, args.connections)
        return conversations.taking_turns(args.port, users, args.prompt_bytes)
    if args.model:
        body = conversations.agent_chat(args.model, args.prompt_bytes)
        return itertools.repeat(wire.chat_request(args.port, body))
    body = wire.chat_body(prompt_bytes=args.prompt_bytes, seed=connection)
    return itertools.repeat(wire.chat_request(args.port, body))


async def _wait(tally: Tally, secs: float) -> None:
    """Until the time is over or the limit reached; raises what a connection reported."""
    await asyncio.wait([tally.ended], timeout=secs)
    if tally.ended.done():
        tally.ended.result()


def _figures(tally: Tally) -> dict[str, float]:
    if not tally.done:
        raise RuntimeError("no request was answered in the measured time")
    latencies = sorted(tally.latencies_secs)
    figures = {f"p{rank}_us": percentile(latencies, rank) * 1e6 for rank in (50, 90, 99)}
    return {"requests": float(tally.done), **figures, "max_us": latencies[-1] * 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.load_chat")
    for name in ("--port", "--gateway-pid", "--workers-pid", "--connections"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--warmup-secs", type=float, default=0.5)
    parser.add_argument("--requests", type=int, default=0, help="stop after so many requests (default: by time)")
    parser.add_argument("--prompt-bytes", type=int, default=0, help="of a message, or of a beginning that is shared")
    parser.add_argument("--conversations", type=int, default=0)
    parser.add_argument("--model", default="", help="ask this one, in the words of an agent")
    try:
        print(json.dumps(uvloop.run(run(parser.parse_args()))))
    except (RuntimeError, OSError) as error:
        sys.exit(f"bench.load_chat: {error}")


if __name__ == "__main__":
    main()
