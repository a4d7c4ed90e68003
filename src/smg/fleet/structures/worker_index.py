"""Candidates by URL, built once for a list that is offered again and again.

Owns the cache only; which workers are candidates is the selection's business.
"""

from __future__ import annotations

from collections.abc import Sequence

from smg.fleet.worker import Worker


class WorkerIndex:
    """URL -> candidate, for the list at hand.

    Selection hands out the same immutable tuple while nothing changes, so the last tuple's index is kept
    (one, no more). A list may change behind our back and is indexed anew each time.
    """

    __slots__ = ("_by_url", "_workers")

    def __init__(self) -> None:
        self._workers: Sequence[Worker] = ()
        self._by_url: dict[str, Worker] = {}

    def by_url(self, workers: Sequence[Worker]) -> dict[str, Worker]:
        """The candidates by registered URL; the dictionary is the caller's to read, not to change."""
        if workers is self._workers:
            return self._by_url
        by_url = {worker.url: worker for worker in workers}
        if type(workers) is tuple:
            self._workers, self._by_url = workers, by_url
        return by_url

    def clear(self) -> None:
        """Let go of the workers last seen."""
        self._workers, self._by_url = (), {}
