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
        self._hold: str | None = None
        self.status = 0
        self.body = b""
        self._settle()
        registry.subscribe(self._follow)

    @property
    def ready(self) -> bool:
        """Whether traffic is wanted."""
        return self.status == HTTPStatus.OK

    def hold(self, reason: str | None) -> None:
        """Be unready for a reason other than the fleet; None lifts it, unless it is `DRAINING`, which is
        for good.
        """
        if self._hold != DRAINING:
            self._hold = reason
            self._settle()

    def drain(self) -> None:
        """The gateway is leaving."""
        self.hold(DRAINING)

    def _follow(self, _change: Change) -> None:
        self._settle()

    def _settle(self) -> None:
        snapshot = self._registry.snapshot
        ready = snapshot.ready
        enough = self._required <= {worker.worker_type for worker in ready} if self._required else bool(ready)
        reason = self._hold or (None if enough else NO_WORKERS)
        if reason is None:
            self.status = HTTPStatus.OK.value
            counts = {"healthy_workers": len(ready), "total_workers": len(snapshot.workers)}
            self.body = msgspec.json.encode({"status": "ready", **counts})
        else:
            self.status = HTTPStatus.SERVICE_UNAVAILABLE.value
            self.body = msgspec.json.encode({"status": "not ready", "reason": reason})
