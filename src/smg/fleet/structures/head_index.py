"""Which worker was sent which prompt head: an exact map of the heads that end at fixed token positions.

For engines that keep reusable prefixes at known positions only (every so many tokens), where a partial match is
worth nothing. A prompt is known by the digests of its heads at the boundaries it reaches. Costs one dictionary entry
a head whatever its length, and one pass over the tokens a request.

Bounds: `MAX_HEADS` heads, the least recently recorded leaving first; `MAX_HOLDERS` workers a head, the latest ones; a
placement is forgotten `ttl_secs` after it was last repeated, a few with every record and the rest when swept. A full
index takes some 100 MB.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b

from smg.fleet.hints import Hints
from smg.fleet.structures.prefix_index import NOTHING, TOKEN_BYTES, Lookup, pack_tokens
from smg.fleet.structures.url_numbers import UrlNumbers

MAX_HEADS = 262_144
MAX_HOLDERS = 3
_EXPIRED_PER_RECORD = 2

_Placements = tuple[float, ...]
"""Who holds a head, the latest first: the number of a URL and when it was recorded, by turns.

Flat, because the garbage collector does not look into tuples of numbers.
"""


class HeadIndex:
    """Heads by worker URL. `boundaries` are ascending token positions, `ttl_secs` above 0, `now` a clock in seconds."""

    def __init__(
        self, boundaries: Sequence[int], ttl_secs: float, now: Callable[[], float], max_heads: int = MAX_HEADS
    ) -> None:
        self._boundaries = tuple(boundaries)
        self._ttl_secs = ttl_secs
        self._now = now
        self._max_heads = max_heads
        self._heads: OrderedDict[bytes, _Placements] = OrderedDict()
        self._workers = UrlNumbers()

    def find(self, hints: Hints) -> Lookup:
        """Look a prompt up; one without tokens, or shorter than the first boundary, is nobody's and stays so."""
        tokens = hints.tokens
        if not tokens:
            return NOTHING
        reached = self._boundaries[: bisect_right(self._boundaries, len(tokens))]
        if not reached:
            return NOTHING
        heads = list(_digests(tokens, reached, hints.partition))
        return _HeadLookup(self, heads, reached, len(tokens), self._now())

    def holders(self, head: bytes, now: float) -> list[str]:
        """The workers that were sent a head and may still hold it, the latest first."""
        placements = self._heads.get(head)
        if placements is None:
            return []
        oldest = now - self._ttl_secs
        urls = self._workers.urls
        return [urls[int(number)] for number, since in _pairs(placements) if since > oldest and number in urls]

    def record(self, heads: Sequence[bytes], url: str, now: float) -> None:
        """Note that a prompt with these heads, the shallowest first, was sent to `url` just now."""
        number, urls, known = self._workers.number(url), self._workers.urls, self._heads
        self._expire(now, _EXPIRED_PER_RECORD * len(heads))
        for head in reversed(heads):  # so that the deepest, which fewest prompts share, leaves first
            placements: _Placements = (number, now)
            for other, since in _pairs(known.get(head, ())):
                if other != number and other in urls:
                    placements += (other, since)
            known[head] = placements[: 2 * MAX_HOLDERS]
            known.move_to_end(head)
        while len(known) > self._max_heads:
            known.popitem(last=False)

    def forget(self, url: str) -> None:
        """Purge a removed worker at once, in constant time."""
        self._workers.forget(url)

    def sweep(self, now: float) -> None:
        """Drop the heads that nobody holds any more."""
        self._expire(now, len(self._heads))

    def sizes(self) -> dict[str, int]:
        """The number of heads, those of removed workers included until they expire."""
        return {"placements": len(self._heads)}

    def _expire(self, now: float, most: int) -> None:
        heads, oldest = self._heads, now - self._ttl_secs
        for _ in range(most):
            if not heads or next(iter(heads.values()))[1] > oldest:
                return
            heads.popitem(last=False)


class _HeadLookup(Lookup):
    """The heads of one prompt of `length` tokens and the boundaries they end at, the shallowest first."""

    __slots__ = ("_heads", "_index", "_levels", "_now")

    def __init__(
        self, index: HeadIndex, heads: Sequence[bytes], boundaries: Sequence[int], length: int, now: float
    ) -> None:
        self._index = index
        self._heads = heads
        self._now = now
        held = [(end, index.holders(head, now)) for end, head in zip(boundaries, heads, strict=True)]
        self._levels = [(end, urls) for end, urls in reversed(held) if urls]
        self.share = self._levels[0][0] / length if self._levels else 0.0

    def levels(self) -> Iterator[tuple[int, Sequence[str]]]:
        return iter(self._levels)

    def record(self, url: str) -> None:
        self._index.record(self._heads, url, self._now)


def _pairs(placements: _Placements) -> Iterator[tuple[float, float]]:
    return zip(placements[::2], placements[1::2], strict=True)


def _digests(tokens: Sequence[int], boundaries: Sequence[int], partition: str) -> Iterator[bytes]:
    """The digest of each head, in one pass; prompts of different partitions share none."""
    name = partition.encode("utf-8", "surrogatepass")
    packed = pack_tokens(tokens[: boundaries[-1]])
    digest = blake2b(b"%d:%b" % (len(name), name), digest_size=16)
    start = 0
    for boundary in boundaries:
        end = boundary * TOKEN_BYTES
        digest.update(packed[start:end])
        yield digest.digest()
        start = end
