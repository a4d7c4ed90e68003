"""Which source of workers the settings ask for, put together. What only one of them needs is imported here and now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from smg.config.derived import effective_discovery_provider, selector_labels
from smg.config.settings import Settings
from smg.errors import ConfigError
from smg.fleet.registry import Registry
from smg.fleet.worker import WorkerType
from smg.services.discovery.bell import Bell
from smg.services.discovery.reconciler import Reconciler
from smg.services.jobs import JobQueue
from smg.services.registrar import Registrar
from smg.telemetry.logs import get_logger
from smg.telemetry.metrics import Metrics

log = get_logger("smg.services.discovery")

# The selectors that count, by the role of their pods. A pod with the labels of several roles has the first of them.
_SINGLE: dict[WorkerType, str] = {"regular": "selector"}
_PAIRS: dict[WorkerType, str] = {
    "prefill": "prefill_selector",
    "decode": "decode_selector",
    "encode": "encode_selector",
}
_CLIENT_PACKAGES = frozenset({"lightkube", "httpx2"})


class Source(Protocol):
    """A loop that keeps the fleet as something outside says."""

    async def run(self) -> None:
        """Work until cancelled; return when there is nothing to do for good."""


def discovery_of(
    settings: Settings, registry: Registry, registrar: Registrar, jobs: JobQueue, metrics: Metrics
) -> Source | None:
    """The source that the settings ask for, not started yet; None without discovery.

    Raises ConfigError when it needs something that is not installed.
    """
    provider = effective_discovery_provider(settings)
    if provider is None:
        return None
    bell = Bell()
    in_place = not settings.dp_aware  # an engine that became several workers cannot be replaced
    reconciler = Reconciler(provider, registry, registrar, jobs, metrics, bell.ring, in_place=in_place)
    return _MAKERS[provider](settings, reconciler, bell, metrics)


def _file(settings: Settings, reconciler: Reconciler, bell: Bell, metrics: Metrics) -> Source:
    from smg.services.discovery.file import FileOptions, FileSource  # noqa: PLC0415  it loads YAML

    options = FileOptions(
        path=Path(settings.discovery_file or ""),
        check_interval_secs=settings.discovery_check_interval_secs,
        api_key=settings.api_key,
    )
    return FileSource(options, reconciler, bell, metrics)


def _kubernetes(settings: Settings, reconciler: Reconciler, bell: Bell, metrics: Metrics) -> Source:
    try:
        from smg.services.discovery.kubernetes import KubernetesOptions, KubernetesSource  # noqa: PLC0415  an extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _CLIENT_PACKAGES:
            raise
        flag = "--service-discovery" if settings.service_discovery else "--discovery-provider"
        needed = "discovering pods needs the Kubernetes client: pip install 'smg-gateway[kubernetes]'"
        raise ConfigError([f"{flag}: {needed}"]) from error
    from smg.services.discovery.pods import PodRules  # noqa: PLC0415  nobody else reads pods

    rules = PodRules(
        port=settings.service_discovery_port,
        model_id_from=settings.model_id_from,
        kv_connector_annotation=settings.kv_connector_annotation,
        kv_engine_id_annotation=settings.kv_engine_id_annotation,
        api_key=settings.api_key,
    )
    options = KubernetesOptions(_selectors(settings), settings.service_discovery_namespace, rules)
    return KubernetesSource(options, reconciler, bell, metrics)


def _selectors(settings: Settings) -> dict[WorkerType, str]:
    """The selectors that count and are given, by role, as Kubernetes spells them."""
    counts, idle = (_PAIRS, _SINGLE) if settings.pd_disaggregation else (_SINGLE, _PAIRS)
    given = {role: selector_labels(getattr(settings, field)) for role, field in counts.items()}
    unused = [field for field in idle.values() if getattr(settings, field)]
    if unused:
        log.warning(
            "selectors mean nothing in this mode",
            selectors=" ".join(unused),
            pd_disaggregation=settings.pd_disaggregation,
        )
    return {role: ",".join(f"{k}={v}" for k, v in labels.items()) for role, labels in given.items() if labels}


_MAKERS: dict[str, Callable[[Settings, Reconciler, Bell, Metrics], Source]] = {"file": _file, "kubernetes": _kubernetes}
