"""What follows from the settings: values that a room needs and no single option states."""

from __future__ import annotations

from typing import Final

from smg.config.forms import split_alias
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


def model_aliases(settings: Settings) -> dict[str, str]:
    """Alias to model, as given by `--model-alias`."""
    return dict(split_alias(pair) for pair in settings.model_alias)
