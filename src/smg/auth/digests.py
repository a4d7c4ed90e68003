"""Secrets kept as digests, and found by them.

A secret itself is never stored, so it cannot reach a log, a metric or an error message from here. A token is found by
its SHA-256, so that a look-up takes the same time however many secrets there are. What its timing could tell is about
digests, and nobody can choose those byte by byte; the last comparison is constant in time all the same.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Generic, TypeVar

T = TypeVar("T")


class DigestTable(Generic[T]):
    """What each secret stands for."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[bytes, tuple[bytes, T]] = {}

    def __bool__(self) -> bool:
        return bool(self._rows)

    def add(self, secret: str, meaning: T) -> None:
        """Let a secret stand for something."""
        digest = sha256(secret.encode()).digest()
        self._rows[digest] = digest, meaning

    def find(self, token: bytes | None) -> T | None:
        """What a token stands for; None if it is no secret of ours."""
        if token is None:
            return None
        digest = sha256(token).digest()
        row = self._rows.get(digest)
        return row[1] if row is not None and hmac.compare_digest(row[0], digest) else None
