"""How text options must be written: addresses, header names, paths, keys, aliases.

Each form judges one text by itself. What several texts say together (an alias mapped twice) is for `checks`.
No complaint repeats the text, since it may hold credentials; whoever prints the problem decides what may be
shown.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from smg.config.options import Form

# The token of RFC 9110, section 5.6.2: what a header name is made of.
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HOST: Final = re.compile(r"[A-Za-z0-9._~-]+")
_LISTEN_HOST: Final = re.compile(r"[A-Za-z0-9.:_%-]+")
_VISIBLE: Final = re.compile(r"[!-~]+")
_PORT: Final = re.compile(r"[0-9]{1,5}")
_MAX_PORT: Final = 65535

# The name requests without a model are filed under; as an alias it would catch all of them.
_RESERVED_ALIAS: Final = "unknown"


def _worker_url_complaint(text: str) -> str | None:
    scheme, separator, rest = text.partition("://")
    if separator and scheme in {"grpc", "grpcs", "ipc"}:
        return f"{scheme}:// workers are not supported yet, use http:// or https://"
    if not separator or scheme not in {"http", "https"}:
        return "must start with http:// or https:// in lower case"
    if not _VISIBLE.fullmatch(rest):
        return "must name a host, in visible ASCII characters"
    try:
        parts = urlsplit(text)
    except ValueError:
        return "has a malformed IPv6 address"
    return _address_complaint(parts)


def _address_complaint(parts: SplitResult) -> str | None:
    if "@" in parts.netloc:
        return "must not carry credentials, a worker's key is --api-key"
    if parts.query or parts.fragment:
        return "must not have a query or a fragment"
    host, port = _split_host(parts.netloc)
    if not _is_host(host):
        return "must name a valid host"
    if port is not None and not _is_port(port):
        return f"has an invalid port, it must be between 1 and {_MAX_PORT}"
    return None


def _split_host(netloc: str) -> tuple[str, str | None]:
    """Take the port off, if there is one. The colons of a bracketed IPv6 address are the host's."""
    end = netloc.rfind("]") + 1
    host, colon, port = netloc[end:].partition(":")
    return netloc[:end] + host, port if colon else None


def _is_host(host: str) -> bool:
    if not host.startswith("["):
        return _HOST.fullmatch(host) is not None
    try:
        IPv6Address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return host.endswith("]")


def _is_port(port: str) -> bool:
    return _PORT.fullmatch(port) is not None and 1 <= int(port) <= _MAX_PORT


def _header_complaint(text: str) -> str | None:
    return None if _TOKEN.fullmatch(text) else "must be a valid header name"


def _path_complaint(text: str) -> str | None:
    if text.startswith("/") and _VISIBLE.fullmatch(text) and "#" not in text:
        return None
    return "must be a path that starts with /"


def _host_complaint(text: str) -> str | None:
    return None if _LISTEN_HOST.fullmatch(text) else "must be a host name or an IP address"


def _key_complaint(text: str) -> str | None:
    return None if text == text.strip() else "must not begin or end with white space"


def split_alias(text: str) -> tuple[str, str]:
    """(alias, model) of `alias=model`, both trimmed; the model is empty if there is no `=`."""
    alias, _, model = text.partition("=")
    return alias.strip(), model.strip()


def _alias_complaint(text: str) -> str | None:
    alias, model = split_alias(text)
    if not alias or not model:
        return "must be written <alias>=<model>"
    if alias == model:
        return "must map the alias to another name than its own"
    if alias == _RESERVED_ALIAS:
        return f"must not use the name {_RESERVED_ALIAS!r} as an alias, it stands for requests without a model"
    return None


WORKER_URL = Form("URL", _worker_url_complaint, lambda text: text.rstrip("/"))
HEADER_NAME = Form("HEADER", _header_complaint, str.lower)
URL_PATH = Form("PATH", _path_complaint)
HOST = Form("HOST", _host_complaint)
KEY = Form("KEY", _key_complaint)
ALIAS = Form("ALIAS=MODEL", _alias_complaint, lambda text: "=".join(split_alias(text)))
