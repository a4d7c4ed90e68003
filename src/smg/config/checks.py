"""Whether the settings make sense: each number in its range, and options that must agree with each other.

A range is part of an option's declaration. A rule over several options is a small function here and a row of
`RULES`; it is only asked when every field it reads is sound by itself, so that one mistake is reported once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from smg.config.control_plane_keys import ControlPlaneKey, split_control_plane_key, split_role
from smg.config.derived import effective_discovery_provider, effective_prometheus_host, static_worker_urls
from smg.config.forms import split_alias, split_prefill, split_selector
from smg.config.options import Option
from smg.config.settings import Settings
from smg.config.tenant_keys import split_tenant_key
from smg.config.values import got, spell

# Addresses that stand for every interface, and so collide with any other on the same port.
_UNSPECIFIED = frozenset({"0.0.0.0", "::"})  # noqa: S104  compared, not bound


class Complaint(NamedTuple):
    """What is wrong with a field: the end of a sentence that starts with its flag."""

    field: str
    text: str


@dataclass(frozen=True, slots=True)
class Rule:
    """What several fields must be together. The complaint is about the first of `reads`."""

    reads: tuple[str, ...]
    complaint: Callable[[Settings], str | None]


def check(settings: Settings, rows: Sequence[Option], unsound: Collection[str] = ()) -> list[Complaint]:
    """Everything wrong with the settings. `unsound` names fields already reported, which hold a stand-in."""
    complaints = [Complaint(row.field, text) for row in rows for text in _out_of_range(row, settings)]
    bad = {*unsound, *(complaint.field for complaint in complaints)}
    for rule in RULES:
        text = None if bad.intersection(rule.reads) else rule.complaint(settings)
        if text is not None:
            complaints.append(Complaint(rule.reads[0], text))
    return complaints


def _out_of_range(row: Option, settings: Settings) -> Iterator[str]:
    if row.applies is not None and getattr(settings, row.applies[0]) != row.applies[1]:
        return
    value: Any = getattr(settings, row.field)
    for number in value if row.many else (value,):
        if number is None or isinstance(number, str):
            continue
        if row.minimum is not None and number < row.minimum:
            yield f"must be at least {spell(row.minimum)}{got(row, number)}"
        elif row.above is not None and number <= row.above:
            yield f"must be above {spell(row.above)}{got(row, number)}"
        elif row.maximum is not None and number > row.maximum:
            yield f"must be at most {spell(row.maximum)}{got(row, number)}"


def _both_legs(settings: Settings) -> str | None:
    legs = bool(settings.prefill), bool(settings.decode)
    if any(legs) and not settings.pd_disaggregation:
        return "must be given for --prefill and --decode to mean anything"
    return None


def _one_leg_a_worker(settings: Settings) -> str | None:
    prefills = {split_prefill(text)[0] for text in settings.prefill}
    both = [url for url in settings.decode if url in prefills]
    return f"names {both[0]}, which --prefill names too; an engine is one or the other" if both else None


def _two_workers_a_leg(settings: Settings) -> str | None:
    if not settings.pd_disaggregation or effective_discovery_provider(settings):
        return None
    for leg, policy, urls in (
        ("prefill", settings.prefill_policy, settings.prefill),
        ("decode", settings.decode_policy, settings.decode),
    ):
        if (policy or settings.policy) == "power_of_two" and len(urls) == 1:
            return f"power_of_two chooses between two workers, give --{leg} at least two workers or none"
    return None


def _two_workers_to_choose_from(settings: Settings) -> str | None:
    if settings.policy == "power_of_two" and len(static_worker_urls(settings)) == 1:
        return "power_of_two chooses between two workers, give --worker-urls at least two or none"
    return None


def _sweeps_for_cache_aware(settings: Settings) -> str | None:
    choices = {"--policy": settings.policy}
    if settings.pd_disaggregation:
        choices |= {"--prefill-policy": settings.prefill_policy or "", "--decode-policy": settings.decode_policy or ""}
    flag = next((flag for flag, policy in choices.items() if policy == "cache_aware"), None)
    if flag is None or settings.eviction_interval_secs:
        return None
    return f"must be above 0 while {flag} is cache_aware, got 0"


def _boundaries_ascend(settings: Settings) -> str | None:
    boundaries = settings.cache_boundaries
    if not boundaries and settings.cache_index == "hash":
        return "must name at least one token position while --cache-index is hash"
    if all(low < high for low, high in pairwise(boundaries)):
        return None
    return f"must be strictly ascending token positions, got {spell(boundaries)}"


def _wait_for_a_queue(settings: Settings) -> str | None:
    if settings.queue_size > 0 and settings.queue_timeout_secs == 0:
        return f"must be above 0 while --queue-size is {settings.queue_size}, got 0"
    return None


def _backoff_cap(settings: Settings) -> str | None:
    if settings.disable_retries or settings.retry_max_backoff_ms >= settings.retry_initial_backoff_ms:
        return None
    least = settings.retry_initial_backoff_ms
    return f"must be at least --retry-initial-backoff-ms, which is {least}, got {settings.retry_max_backoff_ms}"


def _aliases_are_clear(settings: Settings) -> str | None:
    models: dict[str, str] = {}
    for alias, model in map(split_alias, settings.model_alias):
        if models.setdefault(alias, model) != model:
            return f"maps the alias {alias!r} to both {models[alias]!r} and {model!r}"
    return None


def _buckets_ascend(settings: Settings) -> str | None:
    bounds = settings.prometheus_duration_buckets
    if bounds and all(low < high for low, high in pairwise(bounds)):
        return None
    return f"must be strictly ascending numbers, got {spell(bounds) or 'none'}"


def _listeners_apart(settings: Settings) -> str | None:
    if settings.port != settings.prometheus_port:
        return None
    hosts = {settings.host, effective_prometheus_host(settings)}
    if len(hosts) > 1 and not hosts & _UNSPECIFIED:
        return None
    return f"must differ from --port, both are {settings.port}"


def _one_spelling_of_discovery(settings: Settings) -> str | None:
    if settings.service_discovery and settings.discovery_provider is not None:
        return "must not stand beside --service-discovery, which is another spelling of kubernetes"
    return None


def _pods_to_discover(settings: Settings) -> str | None:
    if effective_discovery_provider(settings) != "kubernetes" or settings.pd_disaggregation or settings.selector:
        return None
    return "must say which pods are workers, for they are discovered in Kubernetes"


def _pods_of_pairs_to_discover(settings: Settings) -> str | None:
    if effective_discovery_provider(settings) != "kubernetes" or not settings.pd_disaggregation:
        return None
    if any(getattr(settings, name) for name in _ROLE_SELECTORS):
        return None
    return "must say which pods are prefill workers, or --decode-selector which are decode workers, or both"


def _file_to_discover(settings: Settings) -> str | None:
    if effective_discovery_provider(settings) == "file" and settings.discovery_file is None:
        return "must name a file while --discovery-provider is file"
    return None


def _one_value_a_label(field: str) -> Callable[[Settings], str | None]:
    def complaint(settings: Settings) -> str | None:
        values: dict[str, str] = {}
        for label, value in split_selector(" ".join(getattr(settings, field))):
            if values.setdefault(label, value) != value:
                return f"asks for {label!r} to be both {values[label]!r} and {value!r}"
        return None

    return complaint


def _limits_for_tenants(settings: Settings) -> str | None:
    if settings.tenant_rate_limit_enabled and settings.tenant_rate_limit_config is None:
        return "needs --tenant-rate-limit-config"
    return None


def _keys_apart(settings: Settings) -> str | None:
    """No key may stand for two callers. The keys themselves are not repeated."""
    owners: dict[str, str] = {} if settings.api_key is None else {settings.api_key: "--api-key"}
    for tenant, key in map(split_tenant_key, settings.tenant_api_key):
        owner = owners.setdefault(key, tenant)
        if owner != tenant:
            return f"gives {tenant!r} the same key as {owner if owner == '--api-key' else repr(owner)}"
    return None


def _control_plane_apart(settings: Settings) -> str | None:
    """Keys of the control plane open nothing else, no two holders share one, and none has two roles."""
    others = {settings.api_key, *(key for _, key in map(split_tenant_key, settings.tenant_api_key))}
    owners: dict[str, ControlPlaneKey] = {}
    for key in map(split_control_plane_key, settings.control_plane_api_keys):
        if key.key in others:
            return f"gives {key.id!r} a key that --api-key or --tenant-api-key gives to somebody else"
        owner = owners.setdefault(key.key, key)
        if owner.id != key.id:
            return f"gives {key.id!r} the same key as {owner.id!r}"
        if owner.role != key.role:
            return f"gives a key of {key.id!r} two roles"
    return None


def _whole_issuer(settings: Settings) -> str | None:
    if (settings.jwt_issuer is None) != (settings.jwt_audience is None):
        return "and --jwt-audience need each other: a token must be from this issuer and for this gateway"
    if settings.jwt_issuer is None and (settings.jwt_jwks_uri is not None or settings.jwt_role_mapping):
        return "is needed by --jwt-jwks-uri and --jwt-role-mapping"
    return None


def _one_role_each(settings: Settings) -> str | None:
    roles: dict[str, str] = {}
    for theirs, ours in map(split_role, settings.jwt_role_mapping):
        if roles.setdefault(theirs, ours) != ours:
            return f"maps {theirs!r} to two roles"
    return None


_LEG_POLICIES = ("prefill_policy", "decode_policy")
_DISCOVERY = ("discovery_provider", "service_discovery")
_ROLE_SELECTORS = ("prefill_selector", "decode_selector", "encode_selector")
_SELECTORS = ("selector", *_ROLE_SELECTORS)

RULES = (
    Rule(("pd_disaggregation", "prefill", "decode"), _both_legs),
    Rule(("decode", "prefill"), _one_leg_a_worker),
    Rule((*_LEG_POLICIES, "policy", "prefill", "decode", "pd_disaggregation", *_DISCOVERY), _two_workers_a_leg),
    Rule(("tenant_rate_limit_enabled", "tenant_rate_limit_config"), _limits_for_tenants),
    Rule(("tenant_api_key", "api_key"), _keys_apart),
    Rule(("control_plane_api_keys", "api_key", "tenant_api_key"), _control_plane_apart),
    Rule(("jwt_issuer", "jwt_audience", "jwt_jwks_uri", "jwt_role_mapping"), _whole_issuer),
    Rule(("jwt_role_mapping",), _one_role_each),
    Rule(("policy", "worker_urls", *_DISCOVERY), _two_workers_to_choose_from),
    Rule(_DISCOVERY, _one_spelling_of_discovery),
    Rule(("selector", "pd_disaggregation", *_DISCOVERY), _pods_to_discover),
    Rule((*_ROLE_SELECTORS, "pd_disaggregation", *_DISCOVERY), _pods_of_pairs_to_discover),
    Rule(("discovery_file", *_DISCOVERY), _file_to_discover),
    *(Rule((field,), _one_value_a_label(field)) for field in _SELECTORS),
    Rule(("eviction_interval_secs", "policy", *_LEG_POLICIES, "pd_disaggregation"), _sweeps_for_cache_aware),
    Rule(("cache_boundaries", "cache_index"), _boundaries_ascend),
    Rule(("queue_timeout_secs", "queue_size"), _wait_for_a_queue),
    Rule(("retry_max_backoff_ms", "retry_initial_backoff_ms", "disable_retries"), _backoff_cap),
    Rule(("model_alias",), _aliases_are_clear),
    Rule(("prometheus_duration_buckets",), _buckets_ascend),
    Rule(("prometheus_port", "port", "host", "prometheus_host"), _listeners_apart),
)
