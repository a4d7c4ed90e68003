"""Routing hints in headers and session ids: what a caller says about where its request belongs.

A hint affects only placement. One that is malformed or too long counts as absent and is never an error. What
a policy makes of them is the fleet's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

TOKENS_HEADER = b"x-smg-routing-tokens"
KEY_HEADER = b"x-smg-routing-key"

_MOST_TOKENS = 512
_LONGEST_TOKENS_BYTES = 4096
_LARGEST_TOKEN = 2**32 - 1
_LONGEST_KEY_BYTES = 128

_integers = msgspec.json.Decoder(list[int])

_RETRY = re.compile(r"_r[0-9]+\Z")
_TURN = re.compile(r"_t[0-9]+\Z")


def routing_tokens(value: bytes | None) -> list[int] | None:
    """The token ids of an X-SMG-Routing-Tokens value: comma-separated decimals from 0 to 2^32-1.

    None if the value is absent, has anything else in it, an empty item, more than 512 ids or more than 4096
    bytes.
    """
    if not value or len(value) > _LONGEST_TOKENS_BYTES or value.translate(None, b"0123456789,"):
        return None
    if value.count(b",") >= _MOST_TOKENS:
        return None
    try:
        tokens = _integers.decode(b"[" + value + b"]")  # four times as fast as int() on each
    except msgspec.DecodeError:  # an empty item, or zeros in front, which JSON does not know
        items = value.split(b",")
        if b"" in items:
            return None
        tokens = list(map(int, items))
    return tokens if max(tokens) <= _LARGEST_TOKEN else None


def routing_key(value: bytes | None) -> str | None:
    """The key of a routing key header: not empty, UTF-8, at most 128 bytes; else None."""
    if not value or len(value) > _LONGEST_KEY_BYTES:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def first_routing_key(headers: Mapping[bytes, bytes], names: Iterable[bytes]) -> str | None:
    """The key of the first of the headers `names` with a valid one; an invalid one gives way to the next."""
    for name in names:
        key = routing_key(headers.get(name))
        if key is not None:
            return key
    return None


def session_of(name: object) -> str | None:
    """The session that a routing key or a body's `rid` belongs to, or None if it names none.

    Agents derive the ids of turns and of retries from the id of their session: one trailing `_r<digits>` is
    taken off, then one `_t<digits>`, each unless nothing would be left. Anything but a string of 1 to 128
    bytes names no session.
    """
    if type(name) is not str or not name or len(name.encode()) > _LONGEST_KEY_BYTES:
        return None
    for suffix in (_RETRY, _TURN):
        name = suffix.sub("", name) or name
    return name
