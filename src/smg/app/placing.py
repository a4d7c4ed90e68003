"""How requests are placed, on single workers or on prefill/decode pairs: which parts that takes, and who they are."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from math import ceil
from typing import NamedTuple, cast

from msgspec.structs import replace

from smg.app.metering import branch_counter, sampler
from smg.config.derived import static_prefill_workers, static_worker_urls
from smg.config.settings import Settings
from smg.fleet.pairs import PairSelector
from smg.fleet.placement import Placer
from smg.fleet.policies import load as load_policy
from smg.fleet.policies.base import PolicyContext
from smg.fleet.policy_book import Policies
from smg.fleet.realtime import LeastInFlight, OneForAll, speaks_realtime
from smg.fleet.registry import Registry
from smg.fleet.selection import MEAN_PREFILL_TOKENS, Selector, available, fleet_http, prefill_http, speaks, unranked
from smg.fleet.spec import WorkerSpec
from smg.fleet.sticky import AssignmentMode, StickyOptions, StickySessions
from smg.fleet.worker import WorkerType
from smg.services.inspection import inherited_key
from smg.serving.endpoints.forwarded import SPOKEN_BY_SOME
from smg.telemetry.logs import get_logger
from smg.telemetry.metrics import Metrics

log = get_logger("smg.app")

Clock = Callable[[], float]


class Placing(NamedTuple):
    """`decisions` and `transcriptions` place requests that only whole engines of the fleet can serve, `realtime` those
    that only engines with that label can, whatever the policies. `by_api` has what places the requests of APIs that not
    every worker speaks. `by_type` has the policies of every kind of worker there is; `recheck` is called when a
    worker's state moved.
    """

    placer: Placer
    decisions: Placer
    transcriptions: Placer
    realtime: Placer
    by_api: Mapping[str, Placer]
    by_type: Mapping[WorkerType, Policies]
    sessions: StickySessions | None
    recheck: Callable[[], None]

    @property
    def policies(self) -> tuple[Policies, ...]:
        """All of them."""
        return tuple(self.by_type.values())

    def policy_name(self, model: str | None, worker_type: WorkerType) -> str:
        """The policy that places a model's requests on a kind of worker, as metrics name it."""
        return self.by_type[worker_type].of(model).name


def placing_of(settings: Settings, registry: Registry, metrics: Metrics, now: Clock) -> Placing:
    """What places requests under these settings."""

    def policies(name: str, worker_type: WorkerType) -> Policies:
        return policies_of(settings, name, registry, metrics, now, worker_type)

    by_type: dict[WorkerType, Policies] = {"regular": policies(settings.policy, "regular")}
    sessions = _sessions(settings, now)
    select = partial(
        Selector,
        registry,
        by_type["regular"],
        sessions,
        now,
        mean_prefill_tokens=_mean_prefill_tokens(settings),
        shed_retry_secs=ceil(settings.load_monitor_interval),
        on_shed=lambda stage: metrics.worker_overload_shed.labels(stage).inc(),
    )
    decisions = select(filters=(fleet_http, available), incapable=("decisions_not_supported",))
    transcriptions = select(
        filters=(fleet_http, unranked, available),
        incapable=("audio_transcriptions_not_supported", "dp_aware_not_supported"),
    )
    unpoliced = partial(
        Selector, registry, OneForAll(LeastInFlight(PolicyContext(random.Random(), now))), None, now, **select.keywords
    )
    realtime = unpoliced(
        filters=(speaks_realtime, available), incapable=("service_unavailable",), unavailable="service_unavailable"
    )
    placer: Selector | PairSelector
    by_api: dict[str, Selector | PairSelector] = {
        api: select(filters=(speaks(api), available), incapable=(f"{api}_not_supported",))
        for api in [endpoint.name for endpoint in SPOKEN_BY_SOME]
    }
    if settings.pd_disaggregation:
        by_type |= {leg: policies(name or settings.policy, leg) for leg, name in _legs(settings)}
        placer = PairSelector(registry, by_type["prefill"], by_type["decode"], now, **select.keywords)
        by_api |= {"responses": placer, "messages": placer}
        by_api["count_tokens"] = unpoliced(filters=(prefill_http, available))  # leaves nothing behind to reuse
    else:
        placer = select()

    def recheck() -> None:
        placer.recheck()
        decisions.recheck()
        transcriptions.recheck()
        realtime.recheck()
        for some in by_api.values():
            some.recheck()

    return Placing(placer, decisions, transcriptions, realtime, by_api, by_type, sessions, recheck)


def static_specs(settings: Settings) -> list[WorkerSpec]:
    """The workers that the command line names, with the gateway's own key if they are the fleet's."""
    key = settings.api_key
    specs = [WorkerSpec(url=url) for url in static_worker_urls(settings)]
    specs = [replace(spec, api_key=inherited_key(spec, key)) for spec in specs]
    if settings.pd_disaggregation:
        if settings.worker_urls:
            urls = " ".join(settings.worker_urls)
            log.warning("worker URLs are not registered while workers come in pairs", urls=urls)
        specs += [
            WorkerSpec(url=url, api_key=key, worker_type="prefill", bootstrap_port=port)
            for url, port in static_prefill_workers(settings)
        ]
        specs += [WorkerSpec(url=url, api_key=key, worker_type="decode") for url in settings.decode]
    return specs


def required_roles(settings: Settings) -> Sequence[WorkerType]:
    """The kinds of worker of which each must be there for the gateway to be ready; none in particular if empty."""
    return ("prefill", "decode") if settings.pd_disaggregation else ()


def policies_of(
    settings: Settings, name: str, registry: Registry, metrics: Metrics, now: Clock, worker_type: WorkerType
) -> Policies:
    """The policies of one kind of worker; the command line's has the settings that bear the names of its options."""
    options = load_policy(name).options
    chosen = {f.name: getattr(settings, f.name) for f in fields(options) if hasattr(settings, f.name)}

    def context(policy: str) -> PolicyContext:
        return PolicyContext(
            rng=random.Random(),
            now=now,
            count=branch_counter(metrics, policy),
            observe=sampler(metrics, policy),
            warn=log.warning,
        )

    by_label = worker_type == "regular"
    return Policies(registry, name, options(**chosen), context, log.warning, worker_type=worker_type, by_label=by_label)


def _legs(settings: Settings) -> tuple[tuple[WorkerType, str | None], ...]:
    return ("prefill", settings.prefill_policy), ("decode", settings.decode_policy)


def _sessions(settings: Settings, now: Clock) -> StickySessions | None:
    if not settings.routing_key_override:
        return None
    if settings.pd_disaggregation:
        log.warning("pairs have no sticky sessions: --routing-key-override reaches only policies that read keys")
        return None
    mode = cast("AssignmentMode", settings.assignment_mode or "delegate")
    max_idle_secs = settings.max_idle_secs if settings.eviction_interval_secs else 0
    return StickySessions(StickyOptions(mode, max_idle_secs), random.Random(), now)


def _mean_prefill_tokens(settings: Settings) -> int:
    """What a prompt of unknown length counts for, which only `least_load` lets the operator say."""
    names = {settings.policy}
    if settings.pd_disaggregation:
        names = {name or settings.policy for _, name in _legs(settings)}
    return settings.least_load_mean_prefill_tokens if "least_load" in names else MEAN_PREFILL_TOKENS
