"""From a worker's URL to the address to connect to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

_MOST_REMEMBERED = 4096
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a worker is: `host` without brackets, and what it expects in its Host header."""

    host: str
    port: int
    tls: bool
    authority: bytes


@lru_cache(_MOST_REMEMBERED)
def address_of(url: str) -> Address:
    """Where an http or https URL leads. IPv6 hosts lose their brackets, except in the Host header.

    Raises ValueError for a URL without a host or with another scheme.
    """
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise ValueError(f"not an http URL: {url}")
    port = parts.port or _DEFAULT_PORTS[parts.scheme]
    authority = parts.netloc.rpartition("@")[2].encode()
    return Address(parts.hostname, port, parts.scheme == "https", authority)
