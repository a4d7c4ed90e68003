"""Engines that cost next to nothing: `python -m bench.lean_engines`, one process that listens on one port for each.

They answer with ready-made bytes, chats at once and control calls `--control-ms` after they were asked. What engines
cost is time that no gateway can save, so this is a plain loop over the kernel's events: a call costs it a read and a
write and little else. It notes how long the slowest control call took since somebody asked for that, from the moment
its request was there to when its answer was written, so that what the engines owe to each other on their core is theirs
and not the gateway's.
"""

import argparse
import json
import select
import socket
import time
from collections import deque

from bench import wire

_SLOWEST_PATH = f"/{wire.SLOWEST_PATH}".encode()
_CONTROL_PATH = f"/{wire.CONTROL_PATH}".encode()
_CHAT_PATH = b"/v1/chat/completions"
_READ_BYTES = 65_536
_MOST_EVENTS = 1024
# The kernel's wait has steps of a millisecond; what is left of them is not slept.
_STEP_SECS = 0.001


class Engines:
    """All engines of the process."""

    def __init__(self, count: int, control_secs: float) -> None:
        self._control_secs = control_secs
        self._epoll = select.epoll()
        self._listeners = [socket.create_server(("127.0.0.1", 0), backlog=128) for _ in range(count)]
        self._by_number = {listener.fileno(): listener for listener in self._listeners}
        self._pending: dict[int, bytes] = {}  # of connections: the part of a request that is here
        self._asked: deque[tuple[float, int, socket.socket]] = deque()  # all take as long, so this is in order
        self._slowest_secs = 0.0
        for listener in self._listeners:
            self._epoll.register(listener, select.EPOLLIN)

    @property
    def ports(self) -> list[int]:
        return [listener.getsockname()[1] for listener in self._listeners]

    def run(self) -> None:
        """Serve until killed."""
        while True:
            events = self._epoll.poll(self._wait_secs(), _MOST_EVENTS)
            now = time.perf_counter()
            for number, _ in events:
                if number in self._pending:
                    self._read(number, now)
                else:
                    self._accept(self._by_number[number])
            while self._asked and self._asked[0][0] + self._control_secs <= time.perf_counter():
                self._answer(*self._asked.popleft())

    def _wait_secs(self) -> float:
        if not self._asked:
            return -1
        left_secs = self._asked[0][0] + self._control_secs - time.perf_counter()
        return max(0.0, (left_secs // _STEP_SECS - 1) * _STEP_SECS)

    def _accept(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number = connection.fileno()
        self._by_number[number], self._pending[number] = connection, b""
        self._epoll.register(number, select.EPOLLIN)

    def _read(self, number: int, now: float) -> None:
        connection = self._by_number[number]
        try:
            data = connection.recv(_READ_BYTES)
        except ConnectionError:
            data = b""
        if not data:
            del self._by_number[number], self._pending[number]
            connection.close()
            return
        data = self._pending[number] + data
        end = data.find(wire.HEAD_END)
        complete = end >= 0 and len(data) >= end + len(wire.HEAD_END) + (wire.content_length(data[:end]) or 0)
        self._pending[number] = b"" if complete else data
        if complete:
            self._take(data.split(b" ", 2)[1], connection, now)

    def _take(self, path: bytes, connection: socket.socket, now: float) -> None:
        if path == _CHAT_PATH:
            connection.sendall(wire.CHAT_ANSWER)
        elif path == _CONTROL_PATH:
            self._asked.append((now, connection.fileno(), connection))
        elif path == _SLOWEST_PATH:
            connection.sendall(wire.answer(json.dumps(self._slowest_secs).encode()))
            self._slowest_secs = 0.0
        else:
            connection.sendall(wire.PROBE_ANSWERS.get(path.split(b"?")[0], wire.NOT_FOUND))

    def _answer(self, asked_at: float, number: int, connection: socket.socket) -> None:
        if self._by_number.get(number) is not connection:
            return  # its caller left
        connection.sendall(wire.CONTROL_ANSWER)
        self._slowest_secs = max(self._slowest_secs, time.perf_counter() - asked_at)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.lean_engines")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--control-ms", type=float, default=0.0)
    args = parser.parse_args()
    engines = Engines(args.count, args.control_ms / 1000)
    print(json.dumps(engines.ports), flush=True)
    engines.run()


if __name__ == "__main__":
    main()
