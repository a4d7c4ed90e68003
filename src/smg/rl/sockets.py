"""One exchange over a blocking socket, within one deadline for all of it.

Left to the operating system is the time that looking up a name takes: nothing can bound it from here.
"""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import suppress
from functools import cache

from smg.rl.endpoint import Endpoint
from smg.rl.http1 import Reply, ReplyReader

_READ_BYTES = 1 << 18
# The longest wait the operating system can be asked for counts milliseconds in 31 bits.
_MAX_WAIT_SECS = 2_000_000.0


class Deadline:
    """A moment by which the exchange has to be over."""

    def __init__(self, timeout_secs: float) -> None:
        self._timeout_secs = timeout_secs
        self._at = time.monotonic() + timeout_secs

    def arm(self, sock: socket.socket) -> None:
        """Bound the socket's next operation. Raises TimeoutError when the moment has come."""
        left = self._at - time.monotonic()
        if left <= 0:
            raise self.passed()
        sock.settimeout(min(left, _MAX_WAIT_SECS))

    def passed(self) -> TimeoutError:
        """What to raise when it was missed."""
        return late(self._timeout_secs)


def late(timeout_secs: float) -> TimeoutError:
    """The error of an exchange that took too long."""
    return TimeoutError(f"no complete reply within {timeout_secs:g} s")


def exchange(endpoint: Endpoint, request: bytes, timeout_secs: float, *, bodiless: bool) -> Reply:
    """Send a request and read its reply. Raises OSError; its subclass TimeoutError when it took too long."""
    deadline = Deadline(timeout_secs)
    try:
        with _connect(endpoint, deadline) as sock:
            return _converse(sock, request, ReplyReader(bodiless=bodiless), deadline)
    except TimeoutError as error:
        if error.errno is None:  # our bound; one with a number is the operating system giving up
            raise deadline.passed() from None
        raise


def _converse(sock: socket.socket, request: bytes, reader: ReplyReader, deadline: Deadline) -> Reply:
    unsent: OSError | None = None
    try:
        _send(sock, request, deadline)
    except (BrokenPipeError, ConnectionResetError) as error:
        unsent = error  # who refuses a body may have answered before closing
    try:
        while reader.reply is None:
            deadline.arm(sock)
            if data := sock.recv(_READ_BYTES):
                reader.feed(data)
            else:
                reader.finish()
    except ConnectionError:
        if unsent is not None:
            raise unsent from None
        raise
    assert reader.reply is not None
    return reader.reply


def _send(sock: socket.socket, request: bytes, deadline: Deadline) -> None:
    """Not `sendall`, which over TLS begins its bound anew with every piece."""
    rest = memoryview(request)
    while rest:
        deadline.arm(sock)
        rest = rest[sock.send(rest) :]


# --- connecting


def _connect(endpoint: Endpoint, deadline: Deadline) -> socket.socket:
    sock = _connect_tcp(endpoint, deadline)
    if not endpoint.tls:
        return sock
    try:
        deadline.arm(sock)
        return tls_context().wrap_socket(sock, server_hostname=endpoint.host)
    except BaseException:
        sock.close()
        raise


def _connect_tcp(endpoint: Endpoint, deadline: Deadline) -> socket.socket:
    """The first address of the name that answers."""
    failure: OSError = ConnectionError("the name has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, protocol)
        try:
            deadline.arm(sock)
            sock.connect(address)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            keep_alive(sock)
            return sock
    raise failure


def keep_alive(sock: socket.socket) -> None:
    """Let the system probe a silent connection: a refit is silent for minutes, and firewalls forget."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


@cache
def tls_context() -> ssl.SSLContext:
    """Certificates and host names are checked, against the system's authorities or those of SSL_CERT_FILE."""
    return ssl.create_default_context()
