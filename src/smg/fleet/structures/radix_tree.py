"""Which worker was sent which prompt prefix: a radix tree over text, or over token pages packed into bytes.

Every node stands for a stretch of prompt (its edge) and names the workers that were sent it (its holders).
Whoever holds a node holds all its ancestors. Work a character at a time never happens in Python: edges are
compared by `startswith`, and where two prompts part is found by halving.

Bounds, kept at every record:

- `max_size` elements (characters or bytes), an edge counted once for each of its holders;
- `max_entries` pairs of node and holder, so that very short prompts do not cost more in nodes than in text;
- `MAX_DEPTH` nodes matched on one path: prompts that part deeper down share what lies above.

What leaves is the least recently recorded leaf of a holder. A heap finds it: each pair has an entry with the
time it was pushed, and an entry that proves stale when popped is pushed again with the pair's true time. So a
record of a known prompt touches no heap, and the cost of an eviction is paid by the record that made it
necessary.

Choosing among holders is the policy's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import AnyStr, Generic

from smg.fleet.structures.node_table import NO_NODE, NodeTable

MAX_DEPTH = 256
MAX_ENTRIES = 262_144


class Match(Generic[AnyStr]):
    """How far a prompt is known. Good for one `record`, before anything else changes the tree.

    `matched` counts elements. `path` are the nodes matched whole, from the root down; `partial` is a last
    node of which `common` elements match, if any.
    """

    __slots__ = ("common", "matched", "namespace", "partial", "path", "prompt")

    def __init__(self, prompt: AnyStr, namespace: str) -> None:
        self.prompt: AnyStr = prompt
        self.namespace = namespace
        self.path: list[int] = []
        self.partial = NO_NODE
        self.common = 0
        self.matched = 0


class RadixTree(Generic[AnyStr]):
    """A prefix index of prompts by worker URL.

    `stride` is the smallest stretch that can match (1 character; for bytes, a page): prompts are whole
    multiples of it. `size` and `entries` are what is held now, in the units of the bounds. Namespaces share
    nothing but the bounds.
    """

    def __init__(self, max_size: int, stride: int = 1, max_entries: int = MAX_ENTRIES) -> None:
        self.size = 0
        self.entries = 0
        self._max_size = max_size
        self._max_entries = max_entries
        self._stride = stride
        self._table: NodeTable[AnyStr] = NodeTable(stride)
        self._roots: dict[str, int] = {}
        self._namespaces: dict[int, str] = {}
        self._nodes: dict[str, set[int]] = {}
        # (time, -end, node, url). Times are those of records. Among the nodes of one record the deepest comes
        # first, so that what is popped is a leaf of its holder.
        self._heap: list[tuple[int, int, int, str]] = []
        self._tick = 0

    @property
    def holders(self) -> int:
        """Number of URLs that hold anything."""
        return len(self._nodes)

    def match(self, prompt: AnyStr, namespace: str = "") -> Match[AnyStr]:
        """Find the longest known prefix of `prompt`."""
        found = Match(prompt, namespace)
        node = self._roots.get(namespace)
        if node is None:
            return found
        path, stride, total, start = found.path, self._stride, len(prompt), 0
        children, edges, ends = self._table.children, self._table.edges, self._table.ends
        while start < total and len(path) < MAX_DEPTH:
            child = children.get((node, prompt[start : start + stride]))
            if child is None:
                break
            if not prompt.startswith(edges[child], start):
                common = _common(edges[child], prompt, start)
                found.partial = child
                found.common = common - common % stride
                break
            path.append(child)
            node = child
            start = ends[child]
        found.matched = start + found.common
        return found

    def levels(self, found: Match[AnyStr], least: float = 0) -> Iterator[tuple[int, Mapping[str, int]]]:
        """(matched elements, holders) of every node of which more than `least` elements match, the deepest first."""
        holders, ends = self._table.holders, self._table.ends
        if found.partial != NO_NODE and found.matched > least:
            yield found.matched, holders[found.partial]
        for node in reversed(found.path):
            if ends[node] <= least:
                return
            yield ends[node], holders[node]

    def record(self, found: Match[AnyStr], url: str) -> None:
        """Note that the matched prompt was sent to `url`, then evict down to the bounds.

        Of a prompt longer than the whole tree may be, only the head is noted.
        """
        self._tick += 1
        path = found.path
        if path and url in self._table.holders[path[-1]]:
            holders, tick = self._table.holders, self._tick
            for node in path:
                holders[node][url] = tick
        else:
            for node in path:
                self._hold(node, url)
        if len(path) < MAX_DEPTH:
            self._grow(found, url)
        if self.size > self._max_size or self.entries > self._max_entries:
            self._evict()

    def forget(self, url: str) -> None:
        """Purge a holder at once; costs time in proportion to what it held."""
        nodes = self._nodes.pop(url, None)
        if nodes is None:
            return
        table = self._table
        self.entries -= len(nodes)
        for node in nodes:
            self.size -= len(table.edges[node])
            del table.holders[node][url]
            if not table.holders[node]:
                self._remove(node)
        if len(self._heap) > 2 * self.entries:
            self._rebuild_heap()

    def _grow(self, found: Match[AnyStr], url: str) -> None:
        """Add what lies beyond the nodes that matched whole."""
        parent = found.path[-1] if found.path else NO_NODE
        if found.partial != NO_NODE:
            holders = self._table.holders[found.partial]
            if url in holders and found.matched == len(found.prompt):
                holders[url] = self._tick
                return
            parent = self._split(found.partial, found.common)
            self._hold(parent, url)
        rest = found.prompt[found.matched : self._max_size - self._max_size % self._stride]
        if rest:
            self._append(self._root(found) if parent == NO_NODE else parent, rest, url)

    def _append(self, parent: int, rest: AnyStr, url: str) -> None:
        """Put `rest` below `parent`, which `url` holds, or into it.

        A leaf of one holder grows in place, so that a dialogue stays one node however many turns it takes.
        """
        table = self._table
        if len(table.holders[parent]) == 1 and not table.fanouts[parent]:
            table.extend(parent, rest)
            self.size += len(rest)
        else:
            self._hold(table.add(parent, rest), url)

    def _hold(self, node: int, url: str) -> None:
        """Make `url` a holder of `node` as of now."""
        holders = self._table.holders[node]
        if url not in holders:
            self.size += len(self._table.edges[node])
            self._enter(node, url, self._tick)
        holders[url] = self._tick

    def _enter(self, node: int, url: str, tick: int) -> None:
        """Account for a new pair of node and holder."""
        self.entries += 1
        nodes = self._nodes.get(url)
        if nodes is None:
            nodes = self._nodes[url] = set()
        nodes.add(node)
        heappush(self._heap, (tick, -self._table.ends[node], node, url))

    def _split(self, lower: int, common: int) -> int:
        upper = self._table.split(lower, common)
        for url, tick in self._table.holders[upper].items():
            self._enter(upper, url, tick)
        return upper

    def _root(self, found: Match[AnyStr]) -> int:
        root = self._roots.get(found.namespace)
        if root is None:
            root = self._roots[found.namespace] = self._table.root(found.prompt[:0])
            self._namespaces[root] = found.namespace
        return root

    def _evict(self) -> None:
        """Drop leaves, the least recently recorded first, until the bounds hold."""
        heap, table = self._heap, self._table
        while self.size > self._max_size or self.entries > self._max_entries:
            tick, _, node, url = heappop(heap)
            true_tick = table.holders[node].get(url)
            if true_tick == tick:
                self._drop(node, url)
            elif true_tick is not None:
                heappush(heap, (true_tick, -table.ends[node], node, url))

    def _drop(self, node: int, url: str) -> None:
        self.entries -= 1
        self.size -= len(self._table.edges[node])
        nodes = self._nodes[url]
        nodes.remove(node)
        if not nodes:
            del self._nodes[url]
        holders = self._table.holders[node]
        del holders[url]
        if not holders:
            self._remove(node)

    def _remove(self, node: int) -> None:
        """Take out a node that nobody holds; a namespace goes with its last node."""
        parent = self._table.remove(node)
        if not self._table.fanouts[parent] and self._table.is_root(parent):
            self._table.remove(parent)
            del self._roots[self._namespaces.pop(parent)]

    def _rebuild_heap(self) -> None:
        """Leave the entries of forgotten holders behind."""
        table = self._table
        self._heap = [
            (table.holders[node][url], -table.ends[node], node, url)
            for url, nodes in self._nodes.items()
            for node in nodes
        ]
        heapify(self._heap)


def _common(edge: AnyStr, prompt: AnyStr, start: int) -> int:
    """Length of the common prefix of `edge` and `prompt[start:]`."""
    low, high = 0, min(len(edge), len(prompt) - start)
    while low < high:
        middle = (low + high + 1) // 2
        if prompt.startswith(edge[low:middle], start + low):
            low = middle
        else:
            high = middle - 1
    return low
