"""Whether the other end of a connection has left, asked of the kernel.

While a connection is not read from, neither an orderly end nor a reset reaches the protocol. The kernel knows both:
the state of the TCP connection tells, without taking a byte out of its buffer. Elsewhere than on Linux the question
has no portable answer; there a held client's leaving is noticed when it is read from again.

Of a connection that is read from, the loop hears in its next turn. `Silence` is for whoever cannot wait for that.
"""

from __future__ import annotations

import asyncio
import select
import socket
import sys

_CLOSED = 7  # TCP_CLOSE
_STATES_OF_LEAVING = frozenset({_CLOSED, 8})  # and TCP_CLOSE_WAIT


def has_left(transport: asyncio.BaseTransport) -> bool:
    """True once the peer closed or reset its side; False while it is there or cannot be asked."""
    return _state(transport) in _STATES_OF_LEAVING


def has_reset(transport: asyncio.BaseTransport) -> bool:
    """True once nothing can be sent either: the connection was reset. Otherwise as `has_left`."""
    return _state(transport) == _CLOSED


class Silence:
    """Whether the other end of an idle connection is still there and has kept silent.

    Anything that has come and was not read breaks it, an end as well as bytes. It costs a system call to ask.
    """

    __slots__ = ("_poll",)

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        self._poll = select.poll()
        sock = transport.get_extra_info("socket")
        if sock is not None:
            self._poll.register(sock.fileno(), select.POLLIN)

    def broken(self) -> bool:
        """True once something has come."""
        return bool(self._poll.poll(0))


def _state(transport: asyncio.BaseTransport) -> int:
    """The state of the TCP connection in the kernel's numbering; 0 if it cannot be asked."""
    sock = transport.get_extra_info("socket")
    if sock is None or sys.platform != "linux" or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return 0
    try:
        return int(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0])
    except OSError:
        return _CLOSED
