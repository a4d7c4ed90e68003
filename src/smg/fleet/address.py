"""Worker URLs: what a valid one is, its canonical spelling, and the transport that its scheme stands for."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address
from typing import NamedTuple

from smg.fleet.worker import ConnectionMode


class AddressError(ValueError):
    """A worker URL was refused; the message says why."""


class Address(NamedTuple):
    """A worker URL in its canonical spelling (no trailing slash), and the transport behind it."""

    url: str
    connection_mode: ConnectionMode


_SCHEMES: dict[str, ConnectionMode] = {
    "http": "http",
    "https": "http",
    "grpc": "grpc",
    "grpcs": "grpc",
    "ipc": "zmq",
}
_SPELLED = ", ".join(f"{scheme}://" for scheme in _SCHEMES)
_AUTHORITY = re.compile(r"(?P<host>\[[^\]]*\]|[A-Za-z0-9._-]+)(?P<port>:.*)?")
_PORT = re.compile(r":[0-9]{1,5}")
_PATH = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@%/-]*")
_MAX_PORT = 65535


def parse_address(url: str) -> Address:
    """Read a worker URL: scheme, host, optional port and path. Raises AddressError.

    Schemes are lower case and IPv6 hosts stand in brackets. Credentials, queries and fragments have no
    meaning in an address and are refused. A trailing slash is not part of it.
    """
    scheme, separator, rest = url.partition("://")
    mode = _SCHEMES.get(scheme)
    if not separator or mode is None:
        raise AddressError(f"must begin with one of {_SPELLED}, not {url!r}")
    if mode == "zmq":
        path = rest.rstrip("/")
        if not path.startswith("/") or not _PATH.fullmatch(path):
            raise AddressError(f"an ipc address is the absolute path of a file, without white space, not {url!r}")
        return Address(f"{scheme}://{path}", mode)
    authority, _, path = rest.partition("/")
    _check_authority(authority, url)
    if not _PATH.fullmatch(path):
        raise AddressError(f"an address has no query, fragment or white space: {url!r}")
    return Address(url.rstrip("/"), mode)


def _check_authority(authority: str, url: str) -> None:
    if "@" in authority:  # not repeated: what stands before it is a secret
        raise AddressError("credentials do not belong in an address; give the worker an api_key")
    found = _AUTHORITY.fullmatch(authority)
    if found is None or not _is_host(found["host"]):
        raise AddressError(f"no valid host in {url!r}")
    port = found["port"]
    if port is not None and not (_PORT.fullmatch(port) and 1 <= int(port[1:]) <= _MAX_PORT):
        raise AddressError(f"the port must be a number from 1 to {_MAX_PORT}: {url!r}")


def _is_host(host: str) -> bool:
    if not host.startswith("["):
        return True
    try:
        return IPv6Address(host[1:-1]).scope_id is None  # a zone means nothing to the other side
    except AddressValueError:
        return False
