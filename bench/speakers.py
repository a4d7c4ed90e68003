"""A fake realtime engine: `python -m bench.speakers`, one process on one port.

A session's first message says what becomes of it: `down` gets frames as fast as they are taken, of `up` every byte is
read and counted (`GET /bench/received`). It runs on plain threads and blocking sockets, and what it reads is dropped
by the kernel, so that the core it shares with the load generator does not set the pace.
"""

import argparse
import json
import socket
import threading
from collections.abc import Iterator

from bench import wire

_RECEIVED_PATH = b"/bench/received"
_BLOCK_FRAMES = 16
_HEAD_BYTES = 64 * 1024


class Tally:
    """Bytes read so far, by session."""

    def __init__(self) -> None:
        self.received: list[int] = []

    def total(self) -> int:
        return sum(self.received)


def read_head(sock: socket.socket) -> bytes:
    """The head of a message and nothing after it; empty when the connection ends."""
    head = b""
    while not head.endswith(wire.HEAD_END) and len(head) < _HEAD_BYTES:
        byte = sock.recv(1)
        if not byte:
            return b""
        head += byte
    return head


def dropped(sock: socket.socket, scratch: bytearray) -> Iterator[int]:
    """Read for ever without a copy; yields the size of each piece."""
    while size := sock.recv_into(scratch, 0, socket.MSG_TRUNC):
        yield size


def serve(sock: socket.socket, tally: Tally) -> None:
    """One connection: questions about the engine, or a session."""
    with sock:
        try:
            while head := read_head(sock):
                path = (head.split(b" ", 2)[1]).partition(b"?")[0]
                if path == wire.REALTIME_PATH.encode():
                    sock.sendall(wire.realtime_grant(head))
                    _session(sock, tally)
                    return
                if path == _RECEIVED_PATH:
                    sock.sendall(wire.answer(json.dumps(tally.total()).encode()))
                else:
                    sock.sendall(wire.PROBE_ANSWERS.get(path, wire.NOT_FOUND))
        except (OSError, IndexError):
            return  # the other side has left, or does not speak HTTP/1.1


def _session(sock: socket.socket, tally: Tally) -> None:
    if wire.read_message(sock) == wire.SAY_DOWN:
        block = wire.realtime_frame() * _BLOCK_FRAMES
        while True:
            sock.sendall(block)
    if wire.read_message(sock) != wire.REALTIME_PAYLOAD:
        return  # a relay that changes messages has lost
    at = len(tally.received)
    tally.received.append(0)
    for size in dropped(sock, bytearray(1 << 20)):
        tally.received[at] += size


def main() -> None:
    argparse.ArgumentParser(prog="bench.speakers").parse_args()
    tally = Tally()
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        print(json.dumps([listener.getsockname()[1]]), flush=True)
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=serve, args=(sock, tally), daemon=True).start()


if __name__ == "__main__":
    main()
