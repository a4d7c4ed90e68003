"""What of a gateway is open to whoever reaches it, in plain words, for the one warning at its start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from smg.config.derived import effective_prometheus_host, guards_control_plane
from smg.config.hosts import is_loopback
from smg.config.settings import Settings


def open_surfaces(settings: Settings) -> list[str]:
    """What anybody can use without a credential, or make the gateway believe; empty if nothing."""
    return [text for is_open, text in _SURFACES if is_open(settings)]


def _has_keys(settings: Settings) -> bool:
    return settings.api_key is not None or bool(settings.tenant_api_key)


def _metrics_leave_the_machine(settings: Settings) -> bool:
    return not is_loopback(effective_prometheus_host(settings))


_SURFACES: Final[tuple[tuple[Callable[[Settings], bool], str], ...]] = (
    (lambda settings: not _has_keys(settings), "inference needs no key (set --api-key or --tenant-api-key)"),
    (
        lambda settings: not _has_keys(settings) and not guards_control_plane(settings),
        "workers and all admin routes need no key (set --control-plane-api-keys or --api-key)",
    ),
    (_metrics_leave_the_machine, "metrics need no key (set --prometheus-host 127.0.0.1 or keep the port inside)"),
    (lambda settings: "*" in settings.cors_allowed_origins, "any web page may call (--cors-allowed-origins *)"),
    (lambda settings: settings.trust_tenant_header, "callers say which tenant they are (--trust-tenant-header)"),
)
