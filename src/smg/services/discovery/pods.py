"""Pods as the API server shows them, and the workers that they stand for.

A pod counts when it runs, is ready, has an address and is not on its way out. It is one worker a port. What its labels
and annotations say is taken as far as it makes sense; what does not is a complaint, and the worker goes without it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
from msgspec import Struct

from smg.fleet.spec import SpecError, WorkerSpec, checked_spec
from smg.fleet.worker import ModelCard, WorkerType
from smg.services.discovery.desired import ID_LABEL, PROVIDER_LABEL, Desired

PROVIDER = "kubernetes"
POD_NAME_LABEL = "smg.ai/pod-name"
POD_UID_LABEL = "smg.ai/pod-uid"
PORTS_ANNOTATION = "smg.ai/worker-ports"
BOOTSTRAP_ANNOTATION = "sglang.ai/bootstrap-port"

_MAX_PORT = 65535


class Condition(Struct, frozen=True):
    """One condition of a pod; `status` is "True", "False" or "Unknown"."""

    type: str = ""
    status: str = ""


class Metadata(Struct, frozen=True, rename="camel"):
    """What the cluster knows a pod by."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class PodStatus(Struct, frozen=True):
    """How a pod is doing."""

    phase: str = ""
    ip: str | None = msgspec.field(name="podIP", default=None)
    conditions: tuple[Condition, ...] | None = None


class Pod(Struct, frozen=True):
    """The part of a pod that matters here; the decoder skips the rest."""

    metadata: Metadata = Metadata()
    status: PodStatus = PodStatus()


@dataclass(frozen=True, slots=True)
class PodRules:
    """How pods are read. `model_id_from` is `namespace`, `label:<name>` or `annotation:<name>`."""

    port: int = 80
    model_id_from: str | None = None
    kv_connector_annotation: str = "smg.ai/kv-connector"
    kv_engine_id_annotation: str = "smg.ai/kv-engine-id"
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Reading:
    """The workers of one pod, and what could not be read of it."""

    workers: tuple[Desired, ...] = ()
    complaints: tuple[str, ...] = ()


def is_serving(pod: Pod) -> bool:
    """Whether a pod is one to send requests to."""
    status = pod.status
    ready = any(condition.type == "Ready" and condition.status == "True" for condition in status.conditions or ())
    return (
        ready
        and status.phase == "Running"
        and bool(status.ip)
        and bool(pod.metadata.uid)
        and pod.metadata.deletion_timestamp is None
    )


def read_pod(pod: Pod, role: WorkerType, rules: PodRules) -> Reading:
    """The workers that a pod stands for; none while it is not serving."""
    if not is_serving(pod):
        return Reading()
    reader = _Reader(pod, role, rules)
    ports = reader.ports()
    engine_ids = reader.engine_ids(len(ports))
    spec = WorkerSpec(
        url="",
        worker_type=role,
        models=reader.models(),
        api_key=rules.api_key,
        bootstrap_port=reader.bootstrap_port(),
        kv_connector=reader.annotation(rules.kv_connector_annotation),
    )
    workers = [reader.worker(spec, port, engine_id) for port, engine_id in zip(ports, engine_ids, strict=True)]
    return Reading(tuple([worker for worker in workers if worker is not None]), tuple(reader.complaints))


@dataclass(slots=True)
class _Reader:
    """One serving pod; `complaints` gathers what is wrong with it."""

    pod: Pod
    role: WorkerType
    rules: PodRules
    complaints: list[str] = field(default_factory=list)

    def annotation(self, name: str) -> str | None:
        """An annotation, trimmed; None if it is missing or empty."""
        return (self.pod.metadata.annotations or {}).get(name, "").strip() or None

    def ports(self) -> list[int]:
        """The ports of the annotation, or the one of the settings."""
        text = self.annotation(PORTS_ANNOTATION)
        if text is None:
            return [self.rules.port]
        ports = [_port(part) for part in text.split(",")]
        valid = [port for port in ports if port is not None]
        if len(valid) == len(ports) == len(set(valid)):
            return valid
        self.complaints.append(f"{PORTS_ANNOTATION} is no list of ports, taking port {self.rules.port}")
        return [self.rules.port]

    def engine_ids(self, count: int) -> list[str | None]:
        """A KV engine id for each port."""
        name = self.rules.kv_engine_id_annotation
        text = self.annotation(name)
        ids = [part.strip() for part in text.split(",")] if text else []
        if ids and (len(ids) != count or len(set(ids)) != count or "" in ids):
            self.complaints.append(f"{name} must have one id of its own for each of {count} ports")
            ids = []
        return [*ids] or [None] * count

    def bootstrap_port(self) -> int | None:
        """Where the decode side finds a prefill worker; no other role has one."""
        text = self.annotation(BOOTSTRAP_ANNOTATION)
        if text is None or self.role != "prefill":
            return None
        port = _port(text)
        if port is None:
            self.complaints.append(f"{BOOTSTRAP_ANNOTATION} is no port")
        return port

    def models(self) -> tuple[ModelCard, ...]:
        """The card that names the model after the pod, if it is to be named so."""
        source = self.rules.model_id_from
        if source is None:
            return ()
        kind, _, name = source.partition(":")
        metadata = self.pod.metadata
        named = {"namespace": {"": metadata.namespace}, "label": metadata.labels, "annotation": metadata.annotations}
        model_id = (named[kind] or {}).get(name, "").strip()
        if not model_id:
            self.complaints.append(f"{source} names no model, keeping the engine's own name")
            return ()
        return (ModelCard(model_id),)

    def worker(self, spec: WorkerSpec, port: int, engine_id: str | None) -> Desired | None:
        """The worker at one port; None if its address is none."""
        metadata = self.pod.metadata
        key = f"{metadata.uid}:{port}"
        labels = {
            POD_NAME_LABEL: metadata.name,
            POD_UID_LABEL: metadata.uid,
            PROVIDER_LABEL: PROVIDER,
            ID_LABEL: key,
        }
        try:
            spec = checked_spec(
                msgspec.structs.replace(spec, url=_url(self.pod, port), kv_engine_id=engine_id, labels=labels)
            )
        except SpecError as error:
            self.complaints.append(str(error))
            return None
        return Desired(key, spec, renamed=bool(spec.models))


def _url(pod: Pod, port: int) -> str:
    # Pods speak HTTP: no other scheme can be told from a pod.
    ip = pod.status.ip or ""
    return f"http://[{ip}]:{port}" if ":" in ip else f"http://{ip}:{port}"


def _port(text: str) -> int | None:
    text = text.strip()
    if not (text.isascii() and text.isdigit()):
        return None
    port = int(text[:6])
    return port if 1 <= port <= _MAX_PORT else None
