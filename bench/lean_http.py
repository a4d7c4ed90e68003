"""A client that waits in the kernel: its own part of a call is a write and as few reads as there can be."""

import socket

from bench import wire

_READ_BYTES = 1 << 20


class LeanClient:
    """One connection that is kept, and one request at a time on it."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> bytes:
        """The body of an answer that says how long it is. Raises `RuntimeError` for any but a 200 or 207."""
        self._socket.sendall(request)
        data = self._some()
        while (end := data.find(wire.HEAD_END)) < 0:
            data += self._some()
        if not data.startswith((b"HTTP/1.1 200", b"HTTP/1.1 207")):
            raise RuntimeError(f"the answer is {data[:400]!r}")
        length = wire.content_length(data[:end])
        if length is None:
            raise RuntimeError("an answer does not say how long it is")
        body_at = end + len(wire.HEAD_END)
        while len(data) < body_at + length:
            data += self._some()
        return data[body_at:]

    def _some(self) -> bytes:
        data = self._socket.recv(_READ_BYTES)
        if not data:
            raise RuntimeError("a connection ended before its answer")
        return data
