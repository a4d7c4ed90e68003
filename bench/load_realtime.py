"""The load generator of realtime sessions: `python -m bench.load_realtime`.

It registers the speaker as a realtime worker and opens so many sessions, all of one direction: in the first half of the
time the worker sends as fast as it can, in the second half the clients do. Counted is what arrives.
"""

import argparse
import http.client
import json
import socket
import sys
import threading
import time
from collections.abc import Callable
from http import HTTPStatus

from bench import wire
from bench.speakers import dropped, read_head
from bench.window import Window

_WARM_UP_SECS = 0.5
_READY_SECS = 30.0
_POLL_SECS = 0.02
_BLOCK_FRAMES = 16
_TIMEOUT_SECS = 30.0


class Sessions:
    """The sessions of one direction, a thread each. `received` counts what came, by session."""

    def __init__(self, port: int, count: int) -> None:
        self.received = [0] * count
        self._ended = False
        self._trouble = ""
        self._sockets = [_open(port) for _ in range(count)]

    def start(self, play: Callable[[socket.socket, int], None]) -> None:
        for at, sock in enumerate(self._sockets):
            threading.Thread(target=self._play, args=(play, sock, at), daemon=True).start()

    def _play(self, play: Callable[[socket.socket, int], None], sock: socket.socket, at: int) -> None:
        try:
            play(sock, at)
            trouble = "the gateway ended it"
        except (OSError, RuntimeError) as error:
            trouble = str(error)
        if not self._ended:
            self._trouble = f"session {at}: {trouble}"

    def take(self, sock: socket.socket, at: int) -> None:
        """Have the worker send."""
        sock.sendall(wire.masked(wire.TEXT, wire.SAY_DOWN))
        if wire.read_message(sock) != wire.REALTIME_PAYLOAD:
            raise RuntimeError("the first frame is not the one that was sent")
        for size in dropped(sock, bytearray(1 << 20)):
            self.received[at] += size

    def give(self, sock: socket.socket, _at: int) -> None:
        """Send to the worker."""
        sock.sendall(wire.masked(wire.TEXT, wire.SAY_UP))
        block = wire.masked(wire.BINARY, wire.REALTIME_PAYLOAD) * _BLOCK_FRAMES
        while True:
            sock.sendall(block)

    def end(self) -> None:
        """Raises RuntimeError if a session ended by itself."""
        self._ended = True
        for sock in self._sockets:
            sock.close()
        if self._trouble:
            raise RuntimeError(self._trouble)


def _open(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_SECS)
    sock.sendall(wire.realtime_request(port))
    head = read_head(sock)
    if not head.startswith(b"HTTP/1.1 101 "):
        raise RuntimeError(f"the gateway answered {head[:400]!r}")
    return sock


def register(args: argparse.Namespace) -> None:
    """Add the speaker to the workers, and wait until it takes sessions."""
    spec = {"url": f"http://127.0.0.1:{args.speaker}", "labels": {"realtime": "true"}}
    status, body = _ask(args.port, "POST", "/workers", json.dumps(spec))
    if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        raise RuntimeError(f"the worker was answered {status}: {body[:200]!r}")
    deadline = time.monotonic() + _READY_SECS
    while json.loads(_ask(args.port, "GET", "/readiness")[1]).get("healthy_workers", 0) <= args.present:
        if time.monotonic() > deadline:
            raise RuntimeError("the worker was not ready in time")
        time.sleep(_POLL_SECS)


def _ask(port: int, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_SECS)
    try:
        connection.request(method, path, body, {"content-type": "application/json"} if body else {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def run(args: argparse.Namespace) -> dict[str, float]:
    register(args)
    down = Sessions(args.port, args.sessions)
    down.start(down.take)
    figures = measured("down", args, lambda: sum(down.received))
    down.end()
    up = Sessions(args.port, args.sessions)
    up.start(up.give)
    figures |= measured("up", args, lambda: int(_ask(args.speaker, "GET", "/bench/received")[1]))
    up.end()
    return figures


def measured(direction: str, args: argparse.Namespace, arrived: Callable[[], int]) -> dict[str, float]:
    """What arrives in half of the time."""
    time.sleep(_WARM_UP_SECS)
    window = Window(args.gateway_pid, args.workers_pid)
    before = arrived()
    window.open()
    time.sleep(args.seconds / 2)
    moved = arrived() - before
    figures = window.close()
    if not moved:
        raise RuntimeError(f"nothing came {direction}")
    return {
        **figures,
        f"{direction}_per_sec": moved / figures["wall_secs"],
        f"{direction}_frame_us": figures["gateway_cpu_secs"] / (moved / wire.REALTIME_BYTES) * 1e6,
        f"{direction}_gateway_busy": figures["gateway_busy"],
        f"{direction}_load_busy": figures["load_side_busy"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.load_realtime")
    for name in ("--port", "--gateway-pid", "--workers-pid", "--speaker", "--present", "--sessions"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    try:
        print(json.dumps(run(parser.parse_args())))
    except (RuntimeError, OSError) as error:
        sys.exit(f"bench.load_realtime: {error}")


if __name__ == "__main__":
    main()
