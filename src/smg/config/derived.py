"""What follows from the settings: values that a room needs and no single option states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, cast

from smg.config.forms import split_alias, split_prefill, split_selector
from smg.config.settings import Settings

_REQUESTS_PER_CORE: Final = 1024
_LEAST_DERIVED_REQUESTS: Final = 4096


def effective_max_concurrent_requests(settings: Settings, cores: int) -> int:
    """The number of requests served at the same time on a machine with that many cores; 0 means no limit."""
    if settings.max_concurrent_requests == -1:
        return max(_LEAST_DERIVED_REQUESTS, _REQUESTS_PER_CORE * cores)
    return settings.max_concurrent_requests


def effective_prometheus_host(settings: Settings) -> str:
    """Where the metrics listen: as set, else on all interfaces, of the same IP version as the API."""
    if settings.prometheus_host is not None:
        return settings.prometheus_host
    return "::" if ":" in settings.host else "0.0.0.0"  # noqa: S104  metrics are scraped from other machines


def attempt_limit(settings: Settings) -> int:
    """How often a request may be tried, the first attempt included; 1 when retries are off."""
    return 1 if settings.disable_retries else settings.retry_max_retries


def guards_control_plane(settings: Settings) -> bool:
    """Whether the control plane has credentials of its own, which then are the only ones that open admin routes."""
    return bool(settings.control_plane_api_keys) or settings.jwt_issuer is not None


def model_aliases(settings: Settings) -> dict[str, str]:
    """Alias to model, as given by `--model-alias`."""
    return dict(split_alias(pair) for pair in settings.model_alias)


def effective_discovery_provider(settings: Settings) -> Literal["kubernetes", "file"] | None:
    """Where workers are discovered, however that is spelled; None without discovery."""
    if settings.service_discovery:
        return "kubernetes"
    return cast('Literal["kubernetes", "file"] | None', settings.discovery_provider)


def static_worker_urls(settings: Settings) -> tuple[str, ...]:
    """The workers to register at start-up: none while they are discovered, or come in pairs."""
    return () if effective_discovery_provider(settings) or settings.pd_disaggregation else settings.worker_urls


def static_prefill_workers(settings: Settings) -> list[tuple[str, int | None]]:
    """(URL, bootstrap port) of the prefill workers to register at start-up."""
    return [split_prefill(text) for text in settings.prefill]


def selector_labels(selector: Iterable[str]) -> dict[str, str]:
    """Label to value, as given by `--selector` and its like."""
    return dict(pair for text in selector for pair in split_selector(text))


def protects_from_overload(settings: Settings) -> bool:
    """Whether workers without thresholds of their own are protected: as said, else if anything about it is said."""
    if settings.worker_overload_protection is not None:
        return settings.worker_overload_protection
    thresholds = (settings.worker_overload_waiting_requests, settings.worker_overload_token_usage)
    return settings.worker_overload_shed or any(threshold is not None for threshold in thresholds)


def removes_unhealthy_workers(settings: Settings) -> bool:
    """Whether a worker that is given up leaves the registry: as said, else if discovery can bring it back."""
    if settings.remove_unhealthy_workers is not None:
        return settings.remove_unhealthy_workers
    return effective_discovery_provider(settings) is not None
