"""A consistent hash ring of worker URLs, and the ring over the candidates of a request.

Every URL owns 150 points of a 64-bit circle; a key belongs to the owner of the first point at or after its
own. Taking a URL away therefore moves only its keys, spread over all others, and its return moves exactly
those back.

The hashes come from the standard library. A gateway of another make may place the same key elsewhere;
replicas of this one agree, whatever the order in which they met the workers.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Container, Iterable, Sequence
from hashlib import blake2b, shake_128
from itertools import chain

from smg.fleet.structures.worker_index import WorkerIndex
from smg.fleet.worker import Worker

POINTS_PER_URL = 150
_POINTS = struct.Struct(f"<{POINTS_PER_URL}Q")


def position(key: bytes) -> int:
    """Where a key lies on the circle."""
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little")


class HashRing:
    """Points of the circle and who owns them; 150 entries a URL until the URL is discarded."""

    __slots__ = ("_owner", "_points", "_urls")

    def __init__(self) -> None:
        self._points: list[int] = []
        self._owner: dict[int, str] = {}
        self._urls: set[str] = set()

    def __len__(self) -> int:
        return len(self._urls)

    def __contains__(self, url: object) -> bool:
        return url in self._urls

    def add(self, urls: Iterable[str]) -> None:
        """Put URLs on the circle; known ones stay where they are."""
        new = [url for url in urls if url not in self._urls]
        if not new:
            return
        self._urls.update(new)
        owner, points = self._owner, self._points
        for url in new:
            for point in _points_of(url):
                # Two URLs on one point are next to impossible; the smaller one wins on every replica alike.
                if point not in owner:
                    points.append(point)
                owner[point] = min(url, owner.get(point, url))
        points.sort()  # a sorted list with a short tail: close to linear

    def discard(self, url: str) -> None:
        """Take a URL off the circle, if it is there."""
        if url not in self._urls:
            return
        self._urls.remove(url)
        for point in _points_of(url):
            if self._owner.get(point) == url:
                del self._owner[point]
        self._points = [point for point in self._points if point in self._owner]

    def owner(self, place: int, allowed: Container[str]) -> str | None:
        """The first allowed URL at or after `place`, walking round once; None if there is none."""
        points, owner = self._points, self._owner
        start = bisect_left(points, place)
        for index in chain(range(start, len(points)), range(start)):
            url = owner[points[index]]
            if url in allowed:
                return url
        return None


class WorkerRing:
    """The ring of a model's workers, asked with the candidates of a request.

    Workers are put on the circle when first seen as candidates. One that was never a candidate is passed over
    by every walk, so leaving it out changes no placement. Bound: the workers seen and not yet forgotten.
    """

    __slots__ = ("_index", "_known", "_ring")

    def __init__(self) -> None:
        self._ring = HashRing()
        self._index = WorkerIndex()
        self._known: dict[str, Worker] = {}

    def owner(self, key: bytes, workers: Sequence[Worker]) -> Worker:
        """The candidate that owns `key`, or the next one on the circle when its owner is not among them."""
        by_url = self._index.by_url(workers)
        if by_url is not self._known:
            self._ring.add(by_url)
            self._known = by_url
        url = self._ring.owner(position(key), by_url)
        assert url is not None, "candidates are on the ring and never empty"
        return by_url[url]

    def forget(self, url: str) -> None:
        """Take a removed worker off the circle at once."""
        self._ring.discard(url)
        self._index.clear()
        self._known = {}


def _points_of(url: str) -> tuple[int, ...]:
    return _POINTS.unpack(shake_128(url.encode()).digest(_POINTS.size))
