"""Where the gateway is, read from a base URL once and for all."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import SplitResult, quote, urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}
# What RFC 3986 lets stand in a path. A percent sign stays too: a prefix may come escaped.
_PATH_CHARACTERS = "/%!$&'()*+,;=:@~"
_FIRST_VISIBLE = 0x21
_DELETE = 0x7F


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address to connect to, and how requests name it.

    `authority` is the value of the Host header. `prefix` is the path in front of every route, empty or with a leading
    and no trailing slash.
    """

    host: str
    port: int
    tls: bool
    authority: str
    prefix: str


def parse_base_url(base_url: str) -> Endpoint:
    """Read `http://host[:port][/prefix]`, or https.

    Raises ValueError for anything else. Credentials in a URL are refused without being repeated, because messages end
    up in logs.
    """
    if any(ord(letter) < _FIRST_VISIBLE or ord(letter) == _DELETE for letter in base_url):
        raise ValueError("base_url must not hold spaces or control characters")
    parts = urlsplit(base_url)
    if parts.scheme not in _DEFAULT_PORTS:
        raise ValueError("base_url must begin with http:// or https://")
    if "@" in parts.netloc:
        raise ValueError("base_url must not hold credentials: pass api_key")
    if "?" in base_url or "#" in base_url:
        raise ValueError("base_url must have neither a query nor a fragment")
    host, port = _host(parts), _port(parts)
    prefix = quote(parts.path.rstrip("/"), safe=_PATH_CHARACTERS)
    return Endpoint(host, port, parts.scheme == "https", _authority(host, port, parts.scheme), prefix)


def _host(parts: SplitResult) -> str:
    host = parts.hostname
    if not host:
        raise ValueError("base_url must name a host")
    return host if host.isascii() else host.encode("idna").decode("ascii")


def _port(parts: SplitResult) -> int:
    try:
        port = parts.port
    except ValueError:
        raise ValueError("base_url must have a port between 1 and 65535, or none") from None
    if port == 0:
        raise ValueError("base_url must have a port between 1 and 65535, or none")
    return _DEFAULT_PORTS[parts.scheme] if port is None else port


def _authority(host: str, port: int, scheme: str) -> str:
    # The zone of a link-local address means something on this machine only.
    named = f"[{host.partition('%')[0]}]" if ":" in host else host
    return named if port == _DEFAULT_PORTS[scheme] else f"{named}:{port}"
