"""The id of a request: the caller's if it is usable, else a new one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

_LONGEST_BYTES = 128
_VISIBLE = bytes(range(0x21, 0x7F))

_RANDOM_CHARS = 24
_BATCH_IDS = 64
_ALPHABET = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# Ids must differ, not be secret: that a few letters are slightly likelier does no harm.
_LETTERS = bytes(_ALPHABET[byte % len(_ALPHABET)] for byte in range(256))


class RequestIds:
    """Finds or makes request ids. One a process and thread: randomness is drawn ahead, a fork would share it.

    `header_names` are the headers that may bring an id, in order of precedence.
    """

    __slots__ = ("_at", "_names", "_pool", "_random_bytes")

    def __init__(self, header_names: Iterable[str], random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._names = tuple(name.lower().encode() for name in header_names)
        self._random_bytes = random_bytes
        self._pool = ""
        self._at = 0

    def of(self, headers: Mapping[bytes, bytes], prefix: str) -> str:
        """The id of a request with these headers (names in lower case).

        The first header of the list that is present decides: its value if that has 1 to 128 visible ASCII
        characters, else a fresh id, as without any such header.
        """
        for name in self._names:
            value = headers.get(name)
            if value is not None:
                if 0 < len(value) <= _LONGEST_BYTES and not value.translate(None, _VISIBLE):
                    return value.decode("ascii")
                break
        start = self._at
        end = start + _RANDOM_CHARS
        if end > len(self._pool):
            random = self._random_bytes(_RANDOM_CHARS * _BATCH_IDS)
            self._pool = random.translate(_LETTERS).decode("ascii")
            start, end = 0, _RANDOM_CHARS
        self._at = end
        return prefix + self._pool[start:end]
