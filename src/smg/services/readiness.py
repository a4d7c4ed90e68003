"""Whether the gateway is ready for traffic, worked out when the fleet changes and served from memory."""

from __future__ import annotations

from collections.abc import Collection
from http import HTTPStatus

import msgspec

from smg.fleet.registry import Change, Registry
from smg.fleet.worker import WorkerType

DRAINING = "draining"
NO_WORKERS = "insufficient healthy workers"


class Readiness:
    """The current answer: `status` and `body`.

    The fleet is good enough with one ready worker, or, when `required` names worker types (the legs of a
    split deployment), with one ready worker of each.
    """

    def __init__(self, registry: Registry, required: Collection[WorkerType] = ()) -> None:
        self._registry = registry
        self._required = frozenset(required)
        self._draining = False
        self.status = 0
        self.body = b""
        self._settle()
        registry.subscribe(self._follow)

    def drain(self) -> None:
        """The gateway is leaving: it is unready for good."""
        self._draining = True
        self._settle()

    def _follow(self, _change: Change) -> None:
        self._settle()

    def _settle(self) -> None:
        snapshot = self._registry.snapshot
        ready = snapshot.ready
        enough = self._required <= {worker.worker_type for worker in ready} if self._required else bool(ready)
        if enough and not self._draining:
            self.status = HTTPStatus.OK.value
            counts = {"healthy_workers": len(ready), "total_workers": len(snapshot.workers)}
            self.body = msgspec.json.encode({"status": "ready", **counts})
        else:
            self.status = HTTPStatus.SERVICE_UNAVAILABLE.value
            reason = DRAINING if self._draining else NO_WORKERS
            self.body = msgspec.json.encode({"status": "not ready", "reason": reason})
