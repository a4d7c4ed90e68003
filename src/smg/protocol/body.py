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

# With more edits than that, taking the object apart is cheaper than looking for each name in it.
_MOST_SEARCHES = 2

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

    `body` is a JSON object, which whoever decoded it knows. Without edits it is the same bytes, and what is only new is
    put behind the others as they stand. Otherwise a repeated member collapses to its last value, and white space
    between the members is not kept. New values must be valid JSON; nothing checks them.

    Raises:
        ValueError: `body` is no JSON object, as far as that shows.
    """
    if not edits:
        return body
    added = _only_added(body, edits)
    if added:
        end = body.rindex(b"}")
        return b"%b%b%b" % (body[:end], added, body[end:])
    found = members(body)
    for name, value in edits.items():
        if value is REMOVED:
            found.pop(name, None)
        else:
            found[name] = value if type(value) is Raw else Raw(value)
    return _encoder.encode(found)


def _only_added(body: bytes, edits: Mapping[str, bytes | Raw | Removed]) -> bytes:
    """The text to put behind the members of an object that has none of these; empty if that is not known to do."""
    if len(edits) > _MOST_SEARCHES:
        return b""
    added = b""
    for name, value in edits.items():
        key = _encoder.encode(name)
        if value is REMOVED or body.rfind(key) >= 0:  # from the end: forwards, Python searches large texts more slowly
            return b""
        added += b",%b:%b" % (key, value)
    return added if b'"' in body else b""
