"""The fake engines: `python -m bench.workers`, one process that listens on one port for each worker.

They answer at once with ready-made bytes. A streamed answer sends its first event with its head and then one
event every `--interval-ms`, each in a write of its own, until `--chunks` events are out. With an interval of 0
the events follow each other as fast as the loop turns, still one a write. Control calls are answered after
`--control-ms`.
"""

import argparse
import asyncio
import json
from dataclasses import dataclass
from typing import cast

import uvloop

from bench import wire

# Up to this size a request is looked at (does it ask for a stream?); a longer one gets a plain answer.
_LOOKED_AT_BYTES = 65_536
_OPEN_STREAMS_PATH = b"/bench/open_streams"
_CONTROL_ANSWERS = {
    f"/{wire.CONTROL_PATH}".encode(): wire.CONTROL_ANSWER,
    f"/{wire.LARGE_PATH}".encode(): wire.LARGE_ANSWER,
}


@dataclass(slots=True)
class Pace:
    chunks: int
    interval_secs: float
    control_secs: float = 0.0
    anonymous: bool = False
    open_streams: int = 0


class WorkerProtocol(asyncio.Protocol):
    """One connection of a gateway: requests in a row, each answered before the next is read."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._loop = asyncio.get_running_loop()
        self._buffer = b""
        self._skip_bytes = 0
        self._skip_to_last_chunk = False
        self._timer: asyncio.Handle | None = None
        self._chunks_left = 0
        self._next_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, _exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._end_stream()

    # Reading

    def data_received(self, data: bytes) -> None:
        if self._skip_bytes or self._skip_to_last_chunk:
            self._skip(data)
            return
        self._buffer = self._buffer + data if self._buffer else data
        while self._buffer:
            end = self._buffer.find(wire.HEAD_END)
            if end < 0 or not self._take_request(self._buffer[:end], end + len(wire.HEAD_END)):
                return

    def _take_request(self, head: bytes, body_at: int) -> bool:
        """Answer the request at the front of the buffer; False when more bytes of it must come first."""
        length = wire.content_length(head)
        if length is None and wire.is_chunked(head):
            self._skip_to_last_chunk = True
            rest, self._buffer = self._buffer[body_at:], b""
            self._skip(rest)
            return False
        stop = body_at + (length or 0)
        if len(self._buffer) < stop:
            if stop > _LOOKED_AT_BYTES:
                self._skip_bytes = stop - len(self._buffer)
                self._buffer = b""
            return False
        body, self._buffer = self._buffer[body_at:stop], self._buffer[stop:]
        self._answer(head.split(b" ", 2)[1], body)
        return True

    def _skip(self, data: bytes) -> None:
        """Let the body of a long request pass, then answer it. Nothing follows: its sender waits for that."""
        if self._skip_to_last_chunk:
            self._buffer = (self._buffer + data)[-_LOOKED_AT_BYTES:]
            if not self._buffer.endswith(wire.LAST_CHUNK):
                return
            body, self._buffer = self._buffer, b""
            self._skip_to_last_chunk = False
            self._answer(b"/v1/chat/completions", body)
            return
        self._skip_bytes -= len(data)
        if self._skip_bytes <= 0:
            self._skip_bytes = 0
            self._transport.write(wire.CHAT_ANSWER)

    # Answering

    def _answer(self, path: bytes, body: bytes) -> None:
        if path == b"/v1/chat/completions":
            if b'"stream":true' in body or b'"stream": true' in body:
                self._begin_stream()
            else:
                self._transport.write(wire.CHAT_ANSWER)
        elif path in _CONTROL_ANSWERS:
            self._loop.call_later(self._pace.control_secs, self._transport.write, _CONTROL_ANSWERS[path])
        elif path == _OPEN_STREAMS_PATH:
            self._transport.write(wire.answer(json.dumps(self._pace.open_streams).encode()))
        else:
            known = wire.HEALTH_ANSWERS if self._pace.anonymous else wire.PROBE_ANSWERS
            self._transport.write(known.get(path.split(b"?")[0], wire.NOT_FOUND))

    def _begin_stream(self) -> None:
        self._pace.open_streams += 1
        self._transport.write(wire.STREAM_HEAD + wire.FIRST_EVENT)
        self._chunks_left = self._pace.chunks - 1
        self._next_at = self._loop.time()
        self._schedule()

    def _schedule(self) -> None:
        if not self._pace.interval_secs:
            # The next turn of the loop, not now: the loop joins the writes of one turn.
            self._timer = self._loop.call_soon(self._tick)
            return
        self._next_at += self._pace.interval_secs
        self._timer = self._loop.call_at(self._next_at, self._tick)

    def _tick(self) -> None:
        self._chunks_left -= 1
        if self._chunks_left:
            self._transport.write(wire.NEXT_EVENT)
            self._schedule()
        else:
            self._transport.write(wire.STREAM_END)
            self._end_stream()

    def _end_stream(self) -> None:
        self._timer = None
        self._pace.open_streams -= 1


async def serve(count: int, pace: Pace) -> None:
    """Listen on free ports, print them as one JSON line, and serve until killed."""
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(lambda: WorkerProtocol(pace), "127.0.0.1", 0) for _ in range(count)]
    print(json.dumps([server.sockets[0].getsockname()[1] for server in servers]), flush=True)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.workers")
    parser.add_argument("--count", type=int, default=2)
    parser.add_argument("--chunks", type=int, default=200)
    parser.add_argument("--interval-ms", type=float, default=10.0)
    parser.add_argument("--control-ms", type=float, default=0.0)
    parser.add_argument("--anonymous", type=int, default=0)
    args = parser.parse_args()
    uvloop.run(
        serve(
            args.count,
            Pace(args.chunks, args.interval_ms / 1000, args.control_ms / 1000, anonymous=bool(args.anonymous)),
        )
    )


if __name__ == "__main__":
    main()
