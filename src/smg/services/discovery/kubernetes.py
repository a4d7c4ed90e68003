"""Pods of a Kubernetes cluster as workers: one informer a role, and a pass when one of them saw a change.

Without a way to a cluster the source gives up, and the gateway runs on without discovery. An API server that does not
answer, or refuses, is asked again and again; until then the workers stay as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from smg.fleet.worker import WorkerType
from smg.services.discovery.bell import Bell
from smg.services.discovery.cluster import Cluster, NoCluster, connect
from smg.services.discovery.desired import Desired
from smg.services.discovery.informer import Informer, Pacing
from smg.services.discovery.pod_store import PodStore
from smg.services.discovery.pods import Pod, PodRules, read_pod
from smg.services.discovery.reconciler import Reconciler
from smg.telemetry.logs import get_logger
from smg.telemetry.metrics import Metrics

log = get_logger("smg.services.discovery")


@dataclass(frozen=True, slots=True)
class KubernetesOptions:
    """Which pods are workers. `selectors` are spelled as Kubernetes does; a pod of several roles has the first."""

    selectors: Mapping[WorkerType, str]
    namespace: str | None = None
    rules: PodRules = field(default_factory=PodRules)
    pacing: Pacing = field(default_factory=Pacing)


class KubernetesSource:
    """Keeps the fleet as the cluster says."""

    def __init__(
        self,
        options: KubernetesOptions,
        reconciler: Reconciler,
        bell: Bell,
        metrics: Metrics,
        connect: Callable[[str | None], Cluster] = connect,
    ) -> None:
        self._options = options
        self._reconciler = reconciler
        self._bell = bell
        self._errors = metrics.discovery_snapshot_errors
        self._connect = connect

    async def run(self) -> None:
        """Follow the cluster until cancelled; returns at once when there is none."""
        try:
            # On a thread, for it reads files.
            cluster = await asyncio.to_thread(self._connect, self._options.namespace)
        except NoCluster as error:
            # Without the traceback, which may quote the configuration.
            log.error("no workers are discovered: there is no way to a cluster", reason=str(error))  # noqa: TRY400
            return
        log.info(
            "workers are discovered in Kubernetes",
            namespace=self._options.namespace or "all",
            selectors=", ".join(f"{role}: {selector}" for role, selector in self._options.selectors.items()),
        )
        try:
            await self._follow(cluster)
        finally:
            await cluster.close()

    async def _follow(self, cluster: Cluster) -> None:
        informers = [self._informer(cluster, role, selector) for role, selector in self._options.selectors.items()]
        async with asyncio.TaskGroup() as tasks:
            for informer in informers:
                tasks.create_task(informer.run())
            for informer in informers:
                # Before every role has been listed once, a worker that is missing may just not be known yet.
                await informer.synced.wait()
            while True:
                self._reconciler.apply(_workers(informers))
                await self._bell.wait(self._options.pacing.resync_secs)

    def _informer(self, cluster: Cluster, role: WorkerType, selector: str) -> Informer:
        read = partial(read_pod, role=role, rules=self._options.rules)
        return Informer(
            cluster, selector, PodStore(read, _complain), self._bell.ring, self._count_failure, self._options.pacing
        )

    def _count_failure(self, reason: str) -> None:
        self._errors.labels(self._reconciler.source, reason).inc()


def _workers(informers: list[Informer]) -> Iterator[Desired]:
    for informer in informers:
        yield from informer.store.workers()


def _complain(pod: Pod, problem: str) -> None:
    log.warning("pod is not as it should be", pod=f"{pod.metadata.namespace}/{pod.metadata.name}", problem=problem)
