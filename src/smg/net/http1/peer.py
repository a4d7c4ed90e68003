"""Whether the other end of a connection has left, asked of the kernel.

While a connection is not read from, neither an orderly end nor a reset reaches the protocol. The kernel knows both:
the state of the TCP connection tells, without taking a byte out of its buffer. Elsewhere than on Linux the question
has no portable answer; there a held client's leaving is noticed when it is read from again.
"""

from __future__ import annotations

import asyncio
import socket
import sys

_STATES_OF_LEAVING = frozenset({7, 8})  # TCP_CLOSE, TCP_CLOSE_WAIT in the kernel's numbering


def has_left(transport: asyncio.BaseTransport) -> bool:
    """True once the peer closed or reset its side; False while it is there or cannot be asked."""
    sock = transport.get_extra_info("socket")
    if sock is None or sys.platform != "linux" or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    try:
        return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in _STATES_OF_LEAVING
    except OSError:
        return True
