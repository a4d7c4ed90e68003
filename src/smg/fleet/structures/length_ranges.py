"""Prompt lengths cut into ranges, one a worker, so that each range brings about the same work.

Until work was seen the ranges split `SPAN` evenly; the last one has no end. What brings how much work is read off the
requests of a window of time. Who serves a range while its owner is out is the policy's business.

Bounds: the workers given and not forgotten, and the `MAX_SAMPLES` latest requests of the window.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable

SPAN = 4096
"""The lengths, in characters or tokens, that are split before anything is known of the traffic."""
MAX_SAMPLES = 8192
"""Enough to know a distribution by, few enough to be sorted in the middle of somebody's request."""
_SHIFT = 2
"""The factor by which the work of a worker must have changed before its range does."""


class LengthRanges:
    """Ranges of lengths by worker URL, recut every `interval_secs` from the requests of as many seconds."""

    def __init__(self, interval_secs: float) -> None:
        self._interval_secs = interval_secs
        self._owners: list[str] = []
        self._known: set[str] = set()
        # The longest prompt of each range but the last; ascending.
        self._ends: list[int] = []
        # (when, length, URL) of the window's requests, and their lengths summed by URL.
        self._window: deque[tuple[float, int, str]] = deque()
        self._work: dict[str, int] = {}
        # When to look at the traffic next (None: there is none), and the work a worker had at the last cut.
        self._look_at: float | None = None
        self._cut_for = 0.0

    def __len__(self) -> int:
        return len(self._owners)

    @property
    def samples(self) -> int:
        """Requests in the window."""
        return len(self._window)

    @property
    def mean_length(self) -> int:
        """The mean length of the window's requests, for one that shows none; 1 at least."""
        return max(1, sum(self._work.values()) // len(self._window)) if self._window else 1

    def ranges(self) -> list[tuple[str, int, int | None]]:
        """(URL, above, up to) of every range, in ascending order; the first begins above -1."""
        above = [-1, *self._ends]
        return list(zip(self._owners, above, [*self._ends, None], strict=False))

    def owner(self, length: int) -> str:
        """The URL whose range a length falls into. There must be one."""
        return self._owners[bisect_left(self._ends, length)]

    def work(self, urls: Iterable[str]) -> list[int]:
        """The work each URL was given in the window, as lengths summed."""
        work = self._work.get
        return [work(url, 0) for url in urls]

    def admit(self, urls: Iterable[str]) -> None:
        """Give ranges to URLs that have none yet, by cutting anew."""
        known = self._known
        new = [url for url in urls if url not in known]
        if new:
            self._owners += new
            self._known.update(new)
            self._cut()

    def record(self, length: int, url: str, now: float) -> None:
        """Note that a prompt went to `url` just now."""
        if self._look_at is None:
            self._look_at = now + self._interval_secs
        self._window.append((now, length, url))
        self._work[url] = self._work.get(url, 0) + length
        if len(self._window) > MAX_SAMPLES:
            self._drop_oldest()

    def advance(self, now: float) -> None:
        """Let old requests leave the window, and cut anew if it is time and the traffic has changed."""
        window, oldest = self._window, now - self._interval_secs
        while window and window[0][0] <= oldest:
            self._drop_oldest()
        if self._look_at is None or now < self._look_at:
            return
        if not window:
            self._look_at = None
            return
        self._look_at = now + self._interval_secs
        work = sum(self._work.values()) / len(self._owners)
        if not self._cut_for / _SHIFT <= work <= self._cut_for * _SHIFT:
            self._cut()

    def forget(self, url: str) -> None:
        """Take a removed worker's range and work away; the others share its lengths."""
        self._work.pop(url, None)
        self._window = deque([sample for sample in self._window if sample[2] != url])
        if url in self._known:
            self._known.remove(url)
            self._owners.remove(url)
            self._cut()

    def _cut(self) -> None:
        """Cut the lengths so that every owner gets the same work of what the window saw, else evenly."""
        count = len(self._owners)
        total = sum(self._work.values())
        if not total or not count:
            self._cut_for = 0.0
            self._ends = [SPAN * number // count for number in range(1, count)]
            return
        self._cut_for = total / count
        ends: list[int] = []
        done = 0
        for length in sorted([length for _, length, _ in self._window]):
            done += length
            while len(ends) < count - 1 and done * count >= total * (len(ends) + 1):
                ends.append(length)
        self._ends = ends

    def _drop_oldest(self) -> None:
        _, length, url = self._window.popleft()
        left = self._work.get(url, 0) - length
        if left:
            self._work[url] = left
        else:
            self._work.pop(url, None)
