"""Ports for processes that must be told one."""

import random
import socket
from contextlib import ExitStack, suppress

# Below what the kernel gives to outgoing connections, and away from the defaults of our own commands.
_RANGE = range(12_000, 28_000)
_random = random.SystemRandom()  # test processes that run at the same time must not draw alike


def free_ports(count):
    """Ports in a row that nobody listens on just now."""
    while True:
        first = _random.choice(_RANGE)
        ports = list(range(first, first + count))
        with suppress(OSError), ExitStack() as held:
            for port in ports:
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return ports
