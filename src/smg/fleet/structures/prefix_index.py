"""What an index of prompt beginnings answers, whatever it is made of, and how it keeps token ids.

The indexes are `tree_index.py` and `head_index.py`; which of the workers they name gets the prompt is the policy's
business.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from smg.fleet.hints import Hints

TOKEN_BYTES = array("I").itemsize
_TOKEN_MASK = (1 << 8 * TOKEN_BYTES) - 1


class Lookup:
    """What an index knows of one prompt. Good for one placement, before anything else changes the index.

    `share` is how much of the prompt is known, between 0 and 1. This one knows nothing and records nothing.
    """

    __slots__ = ("share",)

    def __init__(self, share: float) -> None:
        self.share = share

    def levels(self) -> Iterator[tuple[int, Iterable[str]]]:
        """(known length, URLs that hold it) for every known length worth following, the longest first.

        Lengths are in elements of the index: tokens, characters or bytes.
        """
        return iter(())

    def record(self, url: str) -> None:
        """Note that the prompt goes to `url`."""


NOTHING = Lookup(0.0)


class PrefixIndex(Protocol):
    """Prompt beginnings by worker URL, within a bound of its own."""

    def find(self, hints: Hints) -> Lookup:
        """Look the prompt of a request up."""
        ...

    def forget(self, url: str) -> None:
        """Purge a removed worker, at once."""
        ...

    def sweep(self, now: float) -> None:
        """Drop what is too old."""
        ...

    def sizes(self) -> Mapping[str, int]:
        """How much is remembered, by name."""
        ...


def pack_tokens(tokens: Sequence[int]) -> bytes:
    """Token ids as bytes of one width, in this machine's order: they never leave it."""
    try:
        return array("I", tokens).tobytes()
    except OverflowError:  # not ids any tokenizer makes, yet they may come from a caller
        return array("I", [token & _TOKEN_MASK for token in tokens]).tobytes()
