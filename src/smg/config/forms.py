"""How text options must be written: addresses, header names, paths, keys, aliases, labels of pods.

Each form judges one text by itself. What several texts say together (an alias mapped twice) is for `checks`.
No complaint repeats the text, since it may hold credentials; whoever prints the problem decides what may be
shown.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from smg.config.hosts import is_confidential
from smg.config.options import Form

# The token of RFC 9110, section 5.6.2: what a header name is made of.
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HOST: Final = re.compile(r"[A-Za-z0-9._~-]+")
_LISTEN_HOST: Final = re.compile(r"[A-Za-z0-9.:_%-]+")
_VISIBLE: Final = re.compile(r"[!-~]+")
_PORT: Final = re.compile(r"[0-9]{1,5}")
_MAX_PORT: Final = 65535

# How Kubernetes spells the name of a label or an annotation, with or without a domain before it, a label's value, and
# a namespace.
_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_LABEL_NAME: Final = re.compile(rf"(?:[a-z0-9](?:[a-z0-9.-]{{0,251}}[a-z0-9])?/)?{_NAME}")
_LABEL_VALUE: Final = re.compile(rf"(?:{_NAME})?")
_NAMESPACE: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")

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


def split_prefill(text: str) -> tuple[str, int | None]:
    """(URL, bootstrap port) of a prefill worker as given by `--prefill`; None for no port."""
    url, _, port = text.partition(" ")
    return url, int(port) if port.isdigit() else None


def _plain_prefill(text: str) -> str:
    url, _, port = text.partition(" ")
    return f"{url.rstrip('/')} {port}".strip()


def _prefill_complaint(text: str) -> str | None:
    url, *rest = text.split(" ")
    if len(rest) > 1 or (rest and rest[0] != "none" and not _is_port(rest[0])):
        return "takes a URL and a bootstrap port, or none"
    return _worker_url_complaint(url)


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


def split_selector(text: str) -> list[tuple[str, str]]:
    """(label, value) of each `label=value`; pairs are separated by white space or commas."""
    pairs = [pair.partition("=") for pair in re.split(r"[\s,]+", text) if pair]
    return [(label, value) for label, _, value in pairs]


def _selector_complaint(text: str) -> str | None:
    pairs = split_selector(text)
    sound = all(_LABEL_NAME.fullmatch(label) and _LABEL_VALUE.fullmatch(value) for label, value in pairs)
    if pairs and sound and text.count("=") == len(pairs):
        return None
    return "must be written <label>=<value>, as Kubernetes spells labels"


def _label_name_complaint(text: str) -> str | None:
    return None if _LABEL_NAME.fullmatch(text) else "must be a name as Kubernetes spells those of annotations"


def _namespace_complaint(text: str) -> str | None:
    return None if _NAMESPACE.fullmatch(text) else "must be a name as Kubernetes spells those of namespaces"


def _model_id_source_complaint(text: str) -> str | None:
    kind, _, name = text.partition(":")
    if text == "namespace" or (kind in {"label", "annotation"} and _LABEL_NAME.fullmatch(name)):
        return None
    return "must be namespace, label:<name> or annotation:<name>"


def _issuer_complaint(text: str) -> str | None:
    if not _VISIBLE.fullmatch(text) or not is_confidential(text):
        return "must start with https://, or with http:// for an issuer on this machine"
    return _address_complaint(urlsplit(text))


def _origin_complaint(text: str) -> str | None:
    if text == "*":
        return None
    scheme, separator, rest = text.partition("://")
    host, port = _split_host(rest)
    if separator and scheme and _is_host(host) and (port is None or _is_port(port)):
        return None
    return "must be an origin, such as https://app.example, or * for any"


WORKER_URL = Form("URL", _worker_url_complaint, lambda text: text.rstrip("/"))
PREFILL = Form("URL [PORT]", _prefill_complaint, _plain_prefill)
HEADER_NAME = Form("HEADER", _header_complaint, str.lower)
URL_PATH = Form("PATH", _path_complaint)
HOST = Form("HOST", _host_complaint)
KEY = Form("KEY", _key_complaint)
ALIAS = Form("ALIAS=MODEL", _alias_complaint, lambda text: "=".join(split_alias(text)))
SELECTOR = Form("LABEL=VALUE", _selector_complaint)
LABEL_NAME = Form("NAME", _label_name_complaint)
NAMESPACE = Form("NAME", _namespace_complaint)
MODEL_ID_SOURCE = Form("SOURCE", _model_id_source_complaint)
ISSUER = Form("URL", _issuer_complaint)
AUDIENCE = Form("AUDIENCE", lambda text: None if _VISIBLE.fullmatch(text) else "must be visible ASCII characters")
ORIGIN = Form("ORIGIN", _origin_complaint, str.lower)
