"""The nodes of a radix tree as columns of a table.

A node is a number. A quarter of a million small objects that point at each other would make every full pass
of the garbage collector take tenths of a second, in the middle of somebody's request; strings, numbers and
the dictionaries made of them it does not look into.

Owns how nodes are linked; what they mean and which of them exist is the tree's business (`radix_tree.py`).
"""

from __future__ import annotations

from array import array
from typing import AnyStr, Generic

NO_NODE = -1


class NodeTable(Generic[AnyStr]):
    """Nodes by number; numbers of removed nodes are used again.

    A node stands for a stretch of prompt, its edge. `ends` is the distance of the edge's end from the root,
    `holders` maps a worker URL to when it was last recorded there, `fanouts` counts children. `children`
    finds a child by its parent and the first `stride` elements of its edge. A root has an empty edge, no
    parent and no holders.
    """

    __slots__ = ("_free", "_stride", "children", "edges", "ends", "fanouts", "holders", "parents")

    def __init__(self, stride: int) -> None:
        self._stride = stride
        self._free: list[int] = []
        self.edges: list[AnyStr] = []
        self.holders: list[dict[str, int]] = []
        self.ends = array("q")
        self.parents = array("q")
        self.fanouts = array("q")
        self.children: dict[tuple[int, AnyStr], int] = {}

    def __len__(self) -> int:
        return len(self.edges) - len(self._free)

    def root(self, empty: AnyStr) -> int:
        """Make a node without a parent, given the empty edge."""
        return self._new(empty, 0, NO_NODE)

    def is_root(self, node: int) -> bool:
        """Whether a node has no parent."""
        return self.parents[node] == NO_NODE

    def add(self, parent: int, edge: AnyStr) -> int:
        """Put a child below `parent`, which has none that begins like it."""
        node = self._new(edge, self.ends[parent] + len(edge), parent)
        self.children[parent, edge[: self._stride]] = node
        self.fanouts[parent] += 1
        return node

    def extend(self, node: int, rest: AnyStr) -> None:
        """Make the edge of a node without children longer."""
        self.edges[node] += rest
        self.ends[node] += len(rest)

    def split(self, lower: int, common: int) -> int:
        """Cut the first `common` elements off an edge into a new node above it, with the same holders."""
        edge, parent, stride = self.edges[lower], self.parents[lower], self._stride
        upper = self._new(edge[:common], self.ends[parent] + common, parent)
        self.children[parent, edge[:stride]] = upper
        self.holders[upper].update(self.holders[lower])
        self.edges[lower] = edge[common:]
        self.parents[lower] = upper
        self.children[upper, edge[common : common + stride]] = lower
        self.fanouts[upper] = 1
        return upper

    def remove(self, node: int) -> int:
        """Take a node out and return its parent.

        Its children may stay linked to its number only until the next node is made: they must be taken out
        first.
        """
        parent = self.parents[node]
        edge = self.edges[node]
        if parent != NO_NODE:
            del self.children[parent, edge[: self._stride]]
            self.fanouts[parent] -= 1
        self.edges[node] = edge[:0]
        self.holders[node] = {}
        self._free.append(node)
        return parent

    def _new(self, edge: AnyStr, end: int, parent: int) -> int:
        if not self._free:
            self.edges.append(edge)
            self.holders.append({})
            self.ends.append(end)
            self.parents.append(parent)
            self.fanouts.append(0)
            return len(self.edges) - 1
        node = self._free.pop()
        self.edges[node] = edge
        self.ends[node] = end
        self.parents[node] = parent
        self.fanouts[node] = 0
        return node
