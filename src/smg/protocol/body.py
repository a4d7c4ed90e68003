"""Edits of a raw JSON body: what is not edited keeps its bytes.

A number that went through a float, or an object through a typed shape, would not come back as it was sent.
So an edit takes the object's members apart as slices and puts them together again: order, spelling of
numbers, white space inside values and unknown members stay. Which edits a request needs is decided elsewhere
(`normalising.py`, the dispatch).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec
from msgspec import Raw


class Removed(Enum):
    """Stands for the absence of a member, in an edit."""

    REMOVED = "removed"


REMOVED: Final = Removed.REMOVED

Edits = dict[str, "bytes | Raw | Removed"]
"""Member name -> its new JSON text, or REMOVED."""

# From here on, looking for a member's name is much cheaper than taking the object apart.
_LARGE_BYTES = 16 * 1024

_members = msgspec.json.Decoder(dict[str, Raw])
_encoder = msgspec.json.Encoder()


def members(body: bytes | Raw) -> dict[str, Raw]:
    """The members of the object `body`, by name, as slices of it. Of a repeated member the last one counts.

    Raises:
        ValueError: `body` is no JSON object.
    """
    return _members.decode(body)


def edit(body: bytes, edits: Mapping[str, bytes | Raw | Removed]) -> bytes:
    """`body` with some top-level members replaced, added (at the end) or removed.

    Without edits it is the same object; what is only new is put behind a large object as it stands. Otherwise a
    repeated member collapses to its last value, and white space between the members is not kept. New values must be
    valid JSON; nothing checks them.

    Raises:
        ValueError: `body` is no JSON object.
    """
    if not edits:
        return body
    if len(body) > _LARGE_BYTES and _adds_only(body, edits):
        return _append(body, edits)
    found = members(body)
    for name, value in edits.items():
        if value is REMOVED:
            found.pop(name, None)
        else:
            found[name] = value if type(value) is Raw else Raw(value)
    return _encoder.encode(found)


def _adds_only(body: bytes, edits: Mapping[str, bytes | Raw | Removed]) -> bool:
    is_empty = b'"' not in body
    return not is_empty and not any(
        value is REMOVED or b'"%b"' % name.encode() in body for name, value in edits.items()
    )


def _append(body: bytes, edits: Mapping[str, bytes | Raw | Removed]) -> bytes:
    """Add members that the object does not have, without taking it apart."""
    added = b"".join([b",%b:%b" % (msgspec.json.encode(name), bytes(value)) for name, value in edits.items()])  # type: ignore[arg-type]  # nothing is removed here
    end = body.rindex(b"}")
    return b"%b%b%b" % (body[:end], added, body[end:])
