"""Keeps the pods of one selector up to date: a list, then its changes as they come, and a new list now and then.

    list ──► watch from the list's version ──► watch on from the last version, when the server ends a stream
      ▲        │ error: after a backoff          │
      │        │ the past is gone: at once       │
      └────────┴──────── full pass is due ───────┘

The full pass makes up for what no event told: a deletion that was missed, a connection that died without a sign.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from smg.services.discovery.cluster import ClusterError, Event, Gone, Undecodable
from smg.services.discovery.pod_store import PodStore
from smg.services.discovery.pods import Pod
from smg.telemetry.logs import get_logger

log = get_logger("smg.services.discovery")


class PodApi(Protocol):
    """What lists and watches pods; see `cluster.Cluster`."""

    async def list_pods(self, selector: str) -> tuple[list[Pod], str]: ...

    def watch_pods(self, selector: str, version: str, timeout_secs: float) -> AsyncGenerator[Event, None]: ...


@dataclass(frozen=True, slots=True)
class Pacing:
    """When to list anew although nothing is wrong, and how long to wait when something is.

    `least_pause_secs` is between two lists, and between two watches of which the first ended at once and empty.
    """

    resync_secs: float = 60.0
    first_backoff_secs: float = 0.5
    max_backoff_secs: float = 30.0
    least_pause_secs: float = 1.0


class Informer:
    """The pods of one selector. `changed` is called when a worker may have changed, `failed` when a list failed."""

    def __init__(
        self,
        api: PodApi,
        selector: str,
        store: PodStore,
        changed: Callable[[], None],
        failed: Callable[[str], None],
        pacing: Pacing,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.store = store
        self.synced = asyncio.Event()
        self._api = api
        self._selector = selector
        self._changed = changed
        self._failed = failed
        self._pacing = pacing
        self._sleep = sleep
        self._chance = chance
        self._now = asyncio.get_running_loop().time
        self._listed_at = 0.0
        self._failures = 0
        self._trouble = ""

    async def run(self) -> None:
        """Follow the pods until cancelled."""
        while True:
            try:
                await self._round()
                self._recovered()
            except ClusterError as error:
                await self._recover(error)

    async def _round(self) -> None:
        """From one list to the moment the next is due."""
        self._listed_at = self._now()
        version = await self._list()
        deadline = self._listed_at + self._pacing.resync_secs
        try:
            async with asyncio.timeout_at(deadline) as limit:
                while True:
                    version = await self._watch(version, deadline - self._now())
        except TimeoutError:
            if not limit.expired():
                raise

    async def _list(self) -> str:
        try:
            pods, version = await self._api.list_pods(self._selector)
        except ClusterError as error:
            self._failed("invalid" if isinstance(error, Undecodable) else "unreadable")
            raise
        if self.store.replace(pods):
            self._changed()
        self.synced.set()
        return version

    async def _watch(self, version: str, timeout_secs: float) -> str:
        """Follow the changes until the server ends the stream; the version to go on from."""
        started, quiet = self._now(), True
        async with aclosing(self._api.watch_pods(self._selector, version, timeout_secs)) as events:
            async for event in events:
                quiet = False
                self._recovered()
                version = event.pod.metadata.resource_version or version
                if self.store.apply(event.kind, event.pod):
                    self._changed()
        if quiet and self._now() - started < self._pacing.least_pause_secs:
            await self._sleep(self._pacing.least_pause_secs)
        return version

    def _recovered(self) -> None:
        self._failures = 0
        self._trouble = ""

    async def _recover(self, error: ClusterError) -> None:
        """Wait before the next list: not at all when only the past is gone, longer with every failure in a row."""
        self._failures += 1
        tell = log.debug if str(error) == self._trouble else log.warning
        tell("pods are not followed for a while", selector=self._selector, reason=str(error), failures=self._failures)
        self._trouble = str(error)
        floor = self._listed_at + self._pacing.least_pause_secs - self._now()
        wait = 0.0 if isinstance(error, Gone) and self._failures == 1 else self._backoff_secs()
        await self._sleep(max(0.0, floor, wait))

    def _backoff_secs(self) -> float:
        # The exponent is bounded only so that it stays a sensible number.
        grown = self._pacing.first_backoff_secs * 2.0 ** min(self._failures - 1, 30)
        # Replicas that lost their server in the same moment must not come back in the same one.
        return min(grown, self._pacing.max_backoff_secs) * (0.5 + self._chance() / 2)
