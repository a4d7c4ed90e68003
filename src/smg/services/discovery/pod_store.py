"""The pods of one selector as lists and events leave them, reduced to the workers that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from smg.services.discovery.desired import Desired
from smg.services.discovery.pods import Pod, Reading

PodName = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Kept:
    uid: str
    version: str
    workers: tuple[Desired, ...]


class PodStore:
    """What is known of the pods of one selector. `complain` hears what is wrong with a pod, once a version of it.

    The pods themselves are not kept: their annotations can be large, and most of their changes mean nothing here.
    """

    def __init__(self, read: Callable[[Pod], Reading], complain: Callable[[Pod, str], None]) -> None:
        self._read = read
        self._complain = complain
        self._kept: dict[PodName, _Kept] = {}

    def replace(self, pods: Iterable[Pod]) -> bool:
        """Take a list of all pods; whether that changed a worker."""
        before = {name: kept.workers for name, kept in self._kept.items() if kept.workers}
        self._kept = {_name(pod): self._keep(pod) for pod in pods}
        return before != {name: kept.workers for name, kept in self._kept.items() if kept.workers}

    def apply(self, kind: str, pod: Pod) -> bool:
        """Take an event (ADDED, MODIFIED or DELETED); whether that changed a worker. Other kinds change nothing."""
        name = _name(pod)
        known = self._kept.get(name)
        before = known.workers if known is not None else ()
        if kind in {"ADDED", "MODIFIED"}:
            self._kept[name] = self._keep(pod)
            return self._kept[name].workers != before
        if kind == "DELETED" and known is not None and known.uid == pod.metadata.uid:
            del self._kept[name]
            return bool(before)
        return False

    def workers(self) -> Iterator[Desired]:
        """The workers of all pods."""
        for kept in self._kept.values():
            yield from kept.workers

    def _keep(self, pod: Pod) -> _Kept:
        known = self._kept.get(_name(pod))
        uid, version = pod.metadata.uid, pod.metadata.resource_version
        if known is not None and version and (known.uid, known.version) == (uid, version):
            return known
        reading = self._read(pod)
        for complaint in reading.complaints:
            self._complain(pod, complaint)
        return _Kept(uid, version, reading.workers)


def _name(pod: Pod) -> PodName:
    return pod.metadata.namespace, pod.metadata.name
