"""vLLM's way to split prefill and decode: prefill first, for one token; then decode, told where the cache is.

What travels between the two calls depends on the prefill engine's KV connector: one row a connector. An unknown one
passes through what the prefill engine says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from msgspec import Raw

from smg.protocol.body import REMOVED, Edits, members

PARAMS = "kv_transfer_params"
DEFAULT_MOONCAKE_PORT = 8998

# Whichever of these a request has limits its output; the prefill copy's limit is one token.
_OUTPUT_LIMITS = ("max_completion_tokens", "max_output_tokens", "max_tokens")
_ONLY_FOR_DECODE = ("stream_options", "min_tokens")


class PrefillEngine(NamedTuple):
    """What is registered of a prefill engine: its KV engine's id and address. IPv6 hosts stand in brackets."""

    host: str
    port: int | None = None
    engine_id: str | None = None


@dataclass(frozen=True, slots=True)
class Connector:
    """How one KV connector is spoken to; metrics call it by its `mode`.

    `tag` makes the prefill copy's parameters of a transfer id. `hand_on` makes those of the decode call of the transfer
    id, the prefill engine and what that engine returned. With None decode computes the cache itself, which is a failure
    of a connector that `promises` parameters.
    """

    mode: str
    tag: Callable[[str], Mapping[str, object] | None]
    hand_on: Callable[[str, PrefillEngine, Raw | None], Raw | bytes | None]
    promises: bool = True


def connector_of(name: str | None) -> Connector:
    """The connector of a registered name, in any case; PASSTHROUGH for one without a row."""
    return CONNECTORS.get((name or "").lower().removesuffix("connector"), PASSTHROUGH)


def prefill_edits(
    found: Mapping[str, Raw], tag: Mapping[str, object] | None, output_limit: str = "max_tokens"
) -> Edits:
    """What changes in a request with these members for the prefill engine: one token, one choice, no stream.

    A request that does not bound its output is bounded by the member `output_limit`.
    """
    edits: Edits = {name: REMOVED for name in _ONLY_FOR_DECODE if name in found}
    edits["stream"] = b"false"
    if "n" in found:
        edits["n"] = b"1"
    for name in [n for n in _OUTPUT_LIMITS if n in found] or [output_limit]:
        edits[name] = b"1"
    if tag is not None:
        edits[PARAMS] = msgspec.json.encode(tag)
    return edits


def returned_params(answer: bytes) -> Raw | None:
    """The transfer parameters in a prefill engine's answer, if there are any."""
    try:
        params = members(answer).get(PARAMS)
    except ValueError:
        return None
    return None if params is None or bytes(params) == b"null" else params


def _no_tag(_transfer_id: str) -> None:
    return None


def _as_returned(_transfer_id: str, _prefill: PrefillEngine, returned: Raw | None) -> Raw | None:
    return returned


def _nixl_tag(_transfer_id: str) -> Mapping[str, object]:
    return {"do_remote_decode": True, "do_remote_prefill": False}


def _mooncake_tag(transfer_id: str) -> Mapping[str, object]:
    return {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": transfer_id}


def _mooncake_params(transfer_id: str, prefill: PrefillEngine, _returned: Raw | None) -> bytes | None:
    """The cache is fetched from the prefill engine's own server, whatever its answer says."""
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


PASSTHROUGH = Connector("passthrough", _no_tag, _as_returned, promises=False)
CONNECTORS: dict[str, Connector] = {
    "nixl": Connector("nixl", _nixl_tag, _as_returned),
    "mooncake": Connector("mooncake", _mooncake_tag, _mooncake_params),
}
