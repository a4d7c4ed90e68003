"""The requests of the control plane: which method, which target, which body.

The path of an engine's route is escaped, so that nothing in it can become a query or another route's slash; whether the
gateway takes it is the gateway's to say. Spaces become `%20`, which every server reads alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import quote

# A query: values by name, or pairs in the order they are to be sent. A list or tuple as value repeats the name.
Params: TypeAlias = Mapping[str, object] | Sequence[tuple[str, object]]

_WORKERS = "/v1/rl/workers"
_FANOUT = "/v1/rl/engine"
_METHOD = re.compile(r"[A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class Request:
    """`target` is path and query below the base URL. `body` is JSON, or None for no body at all."""

    method: str
    target: str
    body: bytes | None = None


def list_workers() -> Request:
    """The request for all rows."""
    return Request("GET", _WORKERS)


def show_worker(worker_id: str) -> Request:
    """The request for one row."""
    return Request("GET", f"{_WORKERS}/{quote(worker_id, safe='')}")


def call_engine(worker_id: str, path: str, body: object, method: str, params: Params | None) -> Request:
    """The request that one worker's engine is to get. Raises ValueError or TypeError for what cannot be sent."""
    target = f"{show_worker(worker_id).target}/engine/{_escaped(path)}"
    return _engine_request(method, target, list(_pairs(params)), body)


def fan_out(path: str, body: object, method: str, params: Params | None, selector: str) -> Request:
    """The request for all workers that match. Raises ValueError or TypeError for what cannot be sent."""
    pairs = [*_pairs(params), ("selector", quote(selector, safe=""))]
    return _engine_request(method, f"{_FANOUT}/{_escaped(path)}", pairs, body)


def _engine_request(method: str, path: str, pairs: list[tuple[str, str]], body: object) -> Request:
    if not _METHOD.fullmatch(method):
        raise ValueError("method must be a word such as GET or POST")
    query = "&".join(f"{name}={value}" for name, value in pairs)
    return Request(method, f"{path}?{query}" if query else path, _encoded(body))


def _escaped(path: str) -> str:
    return quote(path.lstrip("/"), safe="/")


def _encoded(body: object) -> bytes | None:
    """JSON without NaN and infinities, which JSON does not have and engines refuse one way or another."""
    if body is None:
        return None
    return json.dumps(body, allow_nan=False, separators=(",", ":")).encode("ascii")


# --- the query


def _pairs(params: Params | None) -> Iterator[tuple[str, str]]:
    """Names and values, escaped."""
    for name, value in params.items() if isinstance(params, Mapping) else params or ():
        if name == "selector":
            raise ValueError("params must not hold 'selector': the gateway keeps it from engines")
        for one in value if isinstance(value, list | tuple) else (value,):
            yield quote(name, safe=""), quote(_text(one), safe="")


def _text(value: object) -> str | bytes:
    """A value as engines read it: booleans as JSON spells them."""
    if value is None:
        raise TypeError("a value of params must not be None: leave the name out")
    if isinstance(value, str | bytes):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)
