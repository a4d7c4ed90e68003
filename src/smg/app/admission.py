"""Who may enter, and when: keys, tenants with their limits, and the gate, put together as the settings ask for them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from smg.admission.bucket import TokenBucket
from smg.admission.tenants import TenantBudgets
from smg.auth.keys import KeyRing
from smg.auth.principals import ControlKeys
from smg.config.control_plane_keys import split_control_plane_key, split_role
from smg.config.derived import effective_max_concurrent_requests, guards_control_plane
from smg.config.scheduler_rules import PRIORITIES, SchedulerRules
from smg.config.settings import Settings
from smg.config.tenant_keys import split_tenant_key
from smg.config.tenant_rules import TenantRules
from smg.edge.authenticate import admin_filter, serving_filter
from smg.edge.body_limit import body_limit
from smg.edge.control_plane import ControlPlane
from smg.edge.front import Filter, Gate
from smg.edge.tenant import tenant_filter
from smg.errors import ConfigError
from smg.fleet.registry import Registry
from smg.fleet.worker import Worker
from smg.net.fetch import Fetcher
from smg.net.routes import Group, Route
from smg.protocol.openapi.operation import Access
from smg.services.admission_gate import AdmissionGate, RateGate
from smg.services.scheduler_accounts import SchedulerAccounts
from smg.services.scheduler_gate import SchedulerGate
from smg.services.tenant_limits import TenantLimits
from smg.telemetry.families import ValueCap
from smg.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from smg.services.issued_tokens import IssuedTokens

SLOTS_WITHOUT_REPORT: Final = 64
"""Slots of a worker that does not say how many requests it runs at a time."""
SLOTS_WITHOUT_WORKERS: Final = 1024
"""Slots while no worker is ready, unless there is a limit on concurrent requests."""
SHARED_KEY_LABEL: Final = "auth:shared"
"""What metrics call the tenant of the shared key: whoever reads them need not know the key's digest."""


@dataclass(frozen=True, slots=True)
class Admission:
    """What the rest of the gateway needs: the keys, the filters of each route group in their order, the gate if there
    is a limit, the limits of tenants if there are any, and the control plane's own door and tokens if it has them.
    """

    ring: KeyRing
    filters: Mapping[Group, tuple[Filter, ...]]
    gate: Gate | None
    limits: TenantLimits | None
    control_plane: ControlPlane | None
    tokens: IssuedTokens | None

    def guarded(self, routes: list[Route]) -> list[Route]:
        """The routes, those of admin behind the control plane's own door if it has one."""
        return routes if self.control_plane is None else self.control_plane.guarded(routes)

    @property
    def access(self) -> Access:
        """Which credentials are asked for."""
        locks, own_door = self.ring.locks, self.control_plane is not None
        return Access(serving=locks, admin=locks or own_door, control_plane=own_door)

    def is_own(self, credential: bytes) -> bool:
        """Whether a credential is for this gateway, and so for nobody behind it."""
        if self.ring.holds(credential):
            return True
        return self.control_plane is not None and self.control_plane.knows(credential)


def admission_of(settings: Settings, registry: Registry, metrics: Metrics, fetcher: Fetcher) -> Admission:
    """Read the files that the settings name, and build what they say.

    Raises ConfigError with everything that is wrong with them.
    """
    scheduler_rules, tenant_rules = _read_files(settings)
    ring = KeyRing(settings.api_key, map(split_tenant_key, settings.tenant_api_key))
    gate: Gate | None
    if scheduler_rules is None:
        gate = _gate(settings, metrics)
    else:
        gate = _scheduler_gate(settings, scheduler_rules, registry, metrics, ring)
    limits = TenantLimits(TenantBudgets(tenant_rules), time.monotonic) if tenant_rules is not None else None
    names_tenants = scheduler_rules is not None or tenant_rules is not None
    filters = _filters(settings, ring, names_tenants=names_tenants)
    tokens = _tokens(settings, fetcher)
    return Admission(ring, filters, gate, limits, _control_plane(settings, tokens), tokens)


def _tokens(settings: Settings, fetcher: Fetcher) -> IssuedTokens | None:
    """What verifies tokens, if there is an issuer."""
    if settings.jwt_issuer is None or settings.jwt_audience is None:
        return None
    from smg.auth.tokens import TokenVerifier  # noqa: PLC0415  cryptography is slow to load
    from smg.services.issued_tokens import IssuedTokens  # noqa: PLC0415  the same
    from smg.services.signing_keys import SigningKeys  # noqa: PLC0415  the same

    roles = dict(map(split_role, settings.jwt_role_mapping))
    keys = SigningKeys(fetcher, settings.jwt_issuer, settings.jwt_jwks_uri, time.monotonic)
    return IssuedTokens(TokenVerifier(settings.jwt_issuer, settings.jwt_audience, roles), keys)


def _control_plane(settings: Settings, tokens: IssuedTokens | None) -> ControlPlane | None:
    """The door of the admin routes, if the control plane has credentials of its own."""
    if not guards_control_plane(settings):
        return None
    keys = [split_control_plane_key(text) for text in settings.control_plane_api_keys]
    return ControlPlane(
        ControlKeys((key.id, key.role, key.key) for key in keys),
        tokens.principal_of if tokens is not None else None,
        audit=settings.control_plane_audit_enabled,
    )


def _read_files(settings: Settings) -> tuple[SchedulerRules | None, TenantRules | None]:
    """The rules of the features that are on."""
    problems: list[str] = []
    scheduler_rules = SchedulerRules() if settings.priority_scheduler_enabled else None
    tenant_rules: TenantRules | None = None
    if settings.priority_scheduler_enabled and settings.priority_scheduler_config is not None:
        from smg.config.scheduler_file import read_scheduler_file  # noqa: PLC0415  YAML is slow to load

        try:
            scheduler_rules = read_scheduler_file(settings.priority_scheduler_config)
        except ConfigError as error:
            problems += error.problems
    if settings.tenant_rate_limit_enabled and settings.tenant_rate_limit_config is not None:
        from smg.config.tenant_file import read_tenant_file  # noqa: PLC0415  the same

        try:
            tenant_rules = read_tenant_file(settings.tenant_rate_limit_config)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return scheduler_rules, tenant_rules


def _filters(settings: Settings, ring: KeyRing, *, names_tenants: bool) -> dict[Group, tuple[Filter, ...]]:
    serving: list[Filter] = [body_limit]
    admin: list[Filter] = [body_limit]
    if ring.locks:
        serving.append(serving_filter(ring))
    if ring.locks and not guards_control_plane(settings):
        admin.append(admin_filter(ring))
    if names_tenants:
        header = settings.tenant_header_name.encode() if settings.trust_tenant_header else None
        serving.append(tenant_filter(header))
    return {"public": (), "serving": tuple(serving), "admin": tuple(admin)}


def _gate(settings: Settings, metrics: Metrics) -> Gate | None:
    """The admission gate, if there is a limit; its counts show in the metrics."""
    capacity = effective_max_concurrent_requests(settings, os.cpu_count() or 1)
    if capacity <= 0:
        return None
    rejected = metrics.admission_queue_rejected

    def on_rejected(reason: str) -> None:
        rejected.labels(reason).inc()

    gate: AdmissionGate | RateGate
    if settings.rate_limit_tokens_per_second:
        gate = RateGate(capacity, settings.rate_limit_tokens_per_second, settings.queue_timeout_secs, on_rejected)
    else:
        gate = AdmissionGate(capacity, settings.queue_size, settings.queue_timeout_secs, on_rejected)
    metrics.admission_inflight.function(read=lambda: gate.in_flight)
    metrics.admission_queue_depth.function(read=lambda: gate.waiting)
    metrics.http_rate_limit.function("allowed", read=lambda: gate.allowed or None)
    metrics.http_rate_limit.function("rejected", read=lambda: gate.rejected or None)
    return gate


# --- the priority scheduler


def _scheduler_gate(
    settings: Settings, rules: SchedulerRules, registry: Registry, metrics: Metrics, ring: KeyRing
) -> SchedulerGate:
    """The scheduler's gate, with as many slots as the fleet has."""
    limit = effective_max_concurrent_requests(settings, os.cpu_count() or 1)
    per_sec = settings.rate_limit_tokens_per_second
    now = asyncio.get_running_loop().time()
    gate = SchedulerGate(
        rules,
        PRIORITIES[settings.priority_scheduler_default_max_class],
        _slots(registry, max(settings.max_concurrent_requests, 0) or SLOTS_WITHOUT_WORKERS),
        SchedulerAccounts(metrics, _tenant_label(ring, settings.priority_scheduler_tenant_metric_top_n)),
        TokenBucket(limit or SLOTS_WITHOUT_WORKERS, per_sec, now) if per_sec else None,
    )
    registry.subscribe(lambda _change: gate.resize())
    return gate


def _slots(registry: Registry, without_workers: int) -> Callable[[], int]:
    def slots() -> int:
        return sum(map(slots_of, registry.snapshot.ready)) or without_workers

    return slots


def slots_of(worker: Worker) -> int:
    """How many requests a worker runs at a time: as it last reported, as it said when it registered, else a guess."""
    if worker.report is not None and worker.report.max_running_requests:
        return worker.report.max_running_requests
    label = worker.labels.get("max_running_requests", "")
    if not (label.isascii() and label.isdigit() and len(label) < len("1000000000")):
        return SLOTS_WITHOUT_REPORT
    of_engine = int(label) or SLOTS_WITHOUT_REPORT
    return of_engine if worker.dp_rank is None else max(1, of_engine // (worker.dp_size or 1))


def _tenant_label(ring: KeyRing, most: int) -> Callable[[str], str]:
    """The labels of tenants: the first `most` to come have their own."""
    cap = ValueCap(most)
    return lambda tenant: cap(SHARED_KEY_LABEL if tenant == ring.shared_tenant else tenant)
