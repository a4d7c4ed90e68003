"""Prompt beginnings in two radix trees: one of text, by characters, and one of token ids, by whole pages.

Bounds: those of `RadixTree`, with the same number of characters in the one and of tokens in the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import AnyStr, Generic

from smg.fleet.hints import Hints
from smg.fleet.structures.prefix_index import TOKEN_BYTES, Lookup, pack_tokens
from smg.fleet.structures.radix_tree import Match, RadixTree

LONGEST_PARTITION = 64


class TreeIndex:
    """`max_size` characters or tokens a tree, pages of `block_size` tokens.

    A beginning is worth following when it is more than the share `threshold` of the prompt.
    """

    def __init__(self, max_size: int, block_size: int, threshold: float) -> None:
        self._threshold = threshold
        self._page_bytes = block_size * TOKEN_BYTES
        self._text: RadixTree[str] = RadixTree(max_size)
        self._tokens: RadixTree[bytes] = RadixTree(max_size * TOKEN_BYTES, self._page_bytes)

    def find(self, hints: Hints) -> Lookup:
        """Look up the token ids if there are any, else the text."""
        if hints.tokens:
            packed = pack_tokens(hints.tokens)
            pages = packed[: len(packed) - len(packed) % self._page_bytes]
            return self._look_up(self._tokens, pages, len(packed), hints.partition)
        return self._look_up(self._text, hints.text, len(hints.text), hints.partition)

    def forget(self, url: str) -> None:
        """Purge a removed worker from both trees."""
        self._text.forget(url)
        self._tokens.forget(url)

    def sweep(self, now: float) -> None:
        """Nothing to do: a tree keeps its bounds with every record."""

    def sizes(self) -> dict[str, int]:
        """Characters and tokens held, counted once a worker, and how many workers hold any."""
        return {
            "chars": self._text.size,
            "tokens": self._tokens.size // TOKEN_BYTES,
            "text_tenants": self._text.holders,
            "token_tenants": self._tokens.holders,
        }

    def _look_up(self, tree: RadixTree[AnyStr], prompt: AnyStr, length: int, partition: str) -> Lookup:
        """Look up a prompt of `length` elements, of which `prompt` are those that the tree can hold."""
        return _TreeLookup(tree, tree.match(prompt, _namespace(partition)), length, self._threshold * length)


class _TreeLookup(Lookup, Generic[AnyStr]):
    """A match in one tree; `least` elements and fewer are not worth following."""

    __slots__ = ("_found", "_least", "_tree")

    def __init__(self, tree: RadixTree[AnyStr], found: Match[AnyStr], length: int, least: float) -> None:
        self.share = found.matched / length if length else 0.0
        self._tree: RadixTree[AnyStr] = tree
        self._found: Match[AnyStr] = found
        self._least = least

    def levels(self) -> Iterator[tuple[int, Mapping[str, int]]]:
        return self._tree.levels(self._found, self._least)

    def record(self, url: str) -> None:
        self._tree.record(self._found, url)


def _namespace(partition: str) -> str:
    """A partition's name of bounded length."""
    if len(partition) <= LONGEST_PARTITION:
        return partition
    return blake2b(partition.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
