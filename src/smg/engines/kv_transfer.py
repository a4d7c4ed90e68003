"""vLLM's way to split prefill and decode: prefill first, for one token; then decode, told where the cache is.

What travels between the two calls depends on the prefill engine's KV connector: one row a connector. An unknown one
passes through what the prefill engine says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec
from msgspec import Raw

from smg.protocol.body import REMOVED, Edits

PARAMS = "kv_transfer_params"
DEFAULT_MOONCAKE_PORT = 8998

# Whichever of these a request has limits its output; the prefill copy's limit is one token.
_OUTPUT_LIMITS = ("max_completion_tokens", "max_output_tokens", "max_tokens")
_DEFAULT_LIMIT = "max_tokens"
_ONLY_FOR_DECODE = ("stream_options", "min_tokens")


@dataclass(frozen=True, slots=True)
class PrefillEngine:
    """What is registered of a prefill engine: its connector, its engine id (with the rank), and its KV address."""

    connector: str | None = None
    engine_id: str | None = None
    host: str = ""
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Connector:
    """How one KV connector is spoken to.

    `tag` makes the prefill copy's parameters of a transfer id, `hand_on` the decode call's of the transfer id, the
    prefill engine and what that engine returned; None means that decode computes the cache itself.
    """

    tag: Callable[[str], Mapping[str, object] | None]
    hand_on: Callable[[str, PrefillEngine, Raw | None], Raw | bytes | None]


def prefill_edits(members: Mapping[str, Raw], tag: Mapping[str, object] | None) -> Edits:
    """What changes in the request for the prefill engine: one token, one choice, no stream."""
    edits: Edits = {name: REMOVED for name in _ONLY_FOR_DECODE if name in members}
    edits["stream"] = b"false"
    if "n" in members:
        edits["n"] = b"1"
    for name in [n for n in _OUTPUT_LIMITS if n in members] or [_DEFAULT_LIMIT]:
        edits[name] = b"1"
    if tag is not None:
        edits[PARAMS] = msgspec.json.encode(tag)
    return edits


def connector_of(name: str | None) -> Connector:
    """The connector of a registered name, in any case; PASSTHROUGH for one without a row."""
    return CONNECTORS.get((name or "").lower().removesuffix("connector"), PASSTHROUGH)


def _no_tag(_transfer_id: str) -> None:
    return None


def _as_returned(_transfer_id: str, _prefill: PrefillEngine, returned: Raw | None) -> Raw | None:
    return returned


def _nixl_tag(_transfer_id: str) -> Mapping[str, object]:
    return {"do_remote_decode": True, "do_remote_prefill": False}


def _mooncake_tag(transfer_id: str) -> Mapping[str, object]:
    return {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": transfer_id}


def _mooncake_params(transfer_id: str, prefill: PrefillEngine, _returned: Raw | None) -> bytes | None:
    if not prefill.engine_id:
        return None
    address = f"http://{prefill.host}:{prefill.port or DEFAULT_MOONCAKE_PORT}"
    return msgspec.json.encode(
        {
            "do_remote_decode": False,
            "do_remote_prefill": True,
            "transfer_id": transfer_id,
            "remote_engine_id": prefill.engine_id,
            "remote_bootstrap_addr": address,
        }
    )


PASSTHROUGH = Connector(_no_tag, _as_returned)
CONNECTORS: dict[str, Connector] = {
    "nixl": Connector(_nixl_tag, _as_returned),
    "mooncake": Connector(_mooncake_tag, _mooncake_params),
}
