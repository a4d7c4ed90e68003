"""SGLang's way to split prefill and decode: both legs get the request at once, and meet at a rendezvous.

The rendezvous is the prefill engine's bootstrap server and a room number that nobody else uses; a batch needs a room an
item. Both bodies carry the same three members, and each names the data-parallel rank that is meant where there are
several; otherwise the caller's request is what it was.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

ROOM_BITS = 63
# A leg learns its own rank by the first, and decode also its partner's by the second.
RANK_MEMBER = "routed_dp_rank"
PREFILL_RANK_MEMBER = "disagg_prefill_dp_rank"


def rendezvous(
    host: str, port: int | None, batch_size: int | None, random_bits: Callable[[int], int]
) -> dict[str, bytes]:
    """The members to put into both bodies, as JSON texts. `host` and `port` are the prefill engine's.

    Rooms are random numbers of `ROOM_BITS` bits, distinct within a batch.
    """
    if batch_size is None:
        members: dict[str, object] = {
            "bootstrap_host": host,
            "bootstrap_port": port,
            "bootstrap_room": random_bits(ROOM_BITS),
        }
    else:
        rooms: set[int] = set()
        while len(rooms) < batch_size:
            rooms.add(random_bits(ROOM_BITS))
        members = {
            "bootstrap_host": [host] * batch_size,
            "bootstrap_port": [port] * batch_size,
            "bootstrap_room": list(rooms),
        }
    return {name: msgspec.json.encode(value) for name, value in members.items()}


def ranks(own: int | None, prefill: int | None = None) -> dict[str, bytes]:
    """The members that name a leg's rank, and for decode its partner's; none for an engine of a single rank."""
    named = {RANK_MEMBER: own, PREFILL_RANK_MEMBER: prefill}
    return {name: b"%d" % rank for name, rank in named.items() if rank is not None}
