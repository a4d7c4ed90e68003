"""The prefix cache of a simulated engine: which blocks of earlier prompts it still holds.

Keys come as chains (see `prompt`), so a flat table in order of use is enough: a prefix is cached as far as its leading
keys are all present. Of one chain the end counts as used longest ago, so eviction eats prefixes from their far end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence


class PrefixCache:
    """At most `capacity_blocks` blocks; the least recently used ones make room."""

    __slots__ = ("_blocks", "capacity_blocks", "evicted", "hit_blocks", "looked_up_blocks")

    def __init__(self, capacity_blocks: int) -> None:
        self.capacity_blocks = capacity_blocks
        self.hit_blocks = 0
        self.looked_up_blocks = 0
        self.evicted = 0
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def covered(self, keys: Sequence[int]) -> int:
        """How many leading blocks are cached."""
        blocks = self._blocks
        hits = 0
        for key in keys:
            if key not in blocks:
                break
            hits += 1
        return hits

    def match(self, keys: Sequence[int]) -> int:
        """How many leading blocks are cached, counted as a look-up."""
        hits = self.covered(keys)
        self.hit_blocks += hits
        self.looked_up_blocks += len(keys)
        return hits

    def insert(self, keys: Sequence[int]) -> None:
        """Cache a whole chain, or mark it as used; what does not fit at all is left out at its far end."""
        blocks = self._blocks
        for key in reversed(keys[: self.capacity_blocks]):
            blocks[key] = None
            blocks.move_to_end(key)
        while len(blocks) > self.capacity_blocks:
            blocks.popitem(last=False)
            self.evicted += 1

    def clear(self) -> int:
        """Forget everything; returns how many blocks that were."""
        dropped = len(self._blocks)
        self._blocks.clear()
        return dropped
