"""The one table of options: a field here is a flag, a YAML key, a variable and a row of the reference.

A new option is one field. What it may be is said in its declaration (`options.option`), what it must be
together with others in `checks`, and what follows from it in `derived`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from smg.config.control_plane_keys import CONTROL_PLANE_KEY, ROLE_MAPPING
from smg.config.forms import (
    ALIAS,
    AUDIENCE,
    HEADER_NAME,
    HOST,
    ISSUER,
    KEY,
    LABEL_NAME,
    MODEL_ID_SOURCE,
    NAMESPACE,
    ORIGIN,
    PREFILL,
    SELECTOR,
    URL_PATH,
    WORKER_URL,
)
from smg.config.options import (
    ASSIGNMENT_MODES,
    CACHE_INDEXES,
    DISCOVERY_PROVIDERS,
    LOAD_METRICS,
    LOG_LEVELS,
    POLICY_NAMES,
    PREFILL_POLICY_NAMES,
    Option,
    option,
    table_of,
)
from smg.config.scheduler_rules import PRIORITIES
from smg.config.tenant_keys import TENANT_KEY

# The sections of the help and the reference page; they appear in the order of the fields below.
SOURCES: Final = "Configuration file"
LISTENING: Final = "Listening"
WORKERS: Final = "Workers"
DISCOVERY: Final = "Service discovery"
ROUTING: Final = "Routing policy"
PAIRS: Final = "Prefill/decode pairs"
CACHE_AWARE: Final = "Cache-aware routing"
PREFIX_HASH: Final = "Prefix-hash routing"
BUCKET: Final = "Bucket routing"
LOAD: Final = "Load-based routing"
OVERLOAD: Final = "Engine load and overload protection"
STICKY: Final = "Sticky sessions and routing keys"
BODIES: Final = "Bodies and timeouts"
ADMISSION: Final = "Admission"
SCHEDULER: Final = "Priority scheduler"
TENANTS: Final = "Tenants and their limits"
RETRIES: Final = "Retries"
BREAKER: Final = "Circuit breaker"
HEALTH: Final = "Health checks"
CONTROL: Final = "RL control plane"
LOGS: Final = "Logs and request ids"
METRICS: Final = "Metrics"
AUTH: Final = "Authentication"

_MAX_PORT: Final = 65535

# From a cached token to a two-hour rollout: sub-second steps for first tokens, minutes for long generations.
DURATION_BUCKETS_SECS: Final = (
    *(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 45.0),
    *(60.0, 90.0, 120.0, 180.0, 240.0, 300.0, 480.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0, 5400.0, 7200.0),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Every setting of a gateway, checked as a whole by `load.load`.

    Durations are seconds and may be fractions unless the name ends in `_ms`; sizes are bytes.
    """

    config: str | None = option(
        None,
        "YAML file with options, keyed by their names below. Variables and flags override it.",
        section=SOURCES,
        in_file=False,
    )

    host: str = option(
        "0.0.0.0",  # noqa: S104  a gateway is there to be reached from other machines
        "Address the API listens on, IPv4 or IPv6.",
        section=LISTENING,
        form=HOST,
    )
    port: int = option(30000, "Port the API listens on.", section=LISTENING, minimum=1, maximum=_MAX_PORT)

    worker_urls: tuple[str, ...] = option(
        (),
        "Workers to register at start-up. More can be added at run time through the workers API.",
        section=WORKERS,
        form=WORKER_URL,
    )
    worker_startup_timeout_secs: float = option(
        1800.0,
        "How long a worker that is being registered may take to answer, model loading included.",
        section=WORKERS,
        above=0,
    )
    worker_startup_check_interval: float = option(
        30.0, "Seconds between two attempts to reach a worker that is starting.", section=WORKERS, above=0
    )
    worker_startup_delay: float = option(
        0.0, "Seconds to wait before a worker is contacted for the first time.", section=WORKERS, minimum=0
    )
    dp_aware: bool = option(
        False,
        "Register every data-parallel rank of an engine as a worker of its own, and name the rank in requests.",
        section=WORKERS,
    )
    job_queue_capacity: int = option(
        1000,
        "Registrations, updates and removals that may wait. Leave room for the whole fleet at once.",
        section=WORKERS,
        minimum=1,
        maximum=1_000_000,
    )
    job_queue_concurrency: int = option(
        200,
        "Registrations, updates and removals done in parallel.",
        section=WORKERS,
        minimum=1,
        maximum=100_000,
    )
    upstream_pool_idle_timeout_secs: float = option(
        3.0,
        "How long an idle connection to a worker is kept. Stay below the worker's own keep-alive time, "
        "which is five seconds for most engines; 0 keeps connections until the worker closes them.",
        section=WORKERS,
        minimum=0,
    )
    upstream_http2: bool = option(
        False,
        "Speak HTTP/2 to workers that answer it, many requests over one connection: without TLS by prior knowledge, "
        "with TLS as negotiated. It is tried when a worker is registered; one that does not answer stays on HTTP/1.1.",
        section=WORKERS,
    )
    model_alias: tuple[str, ...] = option(
        (),
        "Another name under which callers may ask for a model. Case matters.",
        section=WORKERS,
        form=ALIAS,
    )

    service_discovery: bool = option(
        False,
        "Find workers among the pods of Kubernetes: the older spelling of --discovery-provider kubernetes.",
        section=DISCOVERY,
    )
    discovery_provider: str | None = option(
        None,
        "Where workers are found. While discovery is on, --worker-urls are not registered.",
        section=DISCOVERY,
        choices=DISCOVERY_PROVIDERS,
    )
    discovery_file: str | None = option(
        None,
        "YAML or JSON file that lists the workers, for --discovery-provider file. It may appear after the start.",
        section=DISCOVERY,
    )
    discovery_check_interval_secs: float = option(
        30.0,
        "Time between two readings of --discovery-file, which is also read soon after it changes.",
        section=DISCOVERY,
        above=0,
    )
    selector: tuple[str, ...] = option((), "Labels that the pods of workers have.", section=DISCOVERY, form=SELECTOR)
    prefill_selector: tuple[str, ...] = option(
        (), "Labels of the pods that become prefill workers.", section=DISCOVERY, form=SELECTOR
    )
    decode_selector: tuple[str, ...] = option(
        (), "Labels of the pods that become decode workers.", section=DISCOVERY, form=SELECTOR
    )
    encode_selector: tuple[str, ...] = option(
        (), "Labels of the pods that become encode workers.", section=DISCOVERY, form=SELECTOR
    )
    service_discovery_port: int = option(
        80,
        "Port of the engine in a pod without the annotation smg.ai/worker-ports.",
        section=DISCOVERY,
        minimum=1,
        maximum=_MAX_PORT,
    )
    service_discovery_namespace: str | None = option(
        None,
        "Namespace whose pods are watched. Unset watches all of them, which needs a cluster-wide permission.",
        section=DISCOVERY,
        form=NAMESPACE,
    )
    kv_connector_annotation: str = option(
        "smg.ai/kv-connector", "Annotation of a pod that names its KV connector.", section=DISCOVERY, form=LABEL_NAME
    )
    kv_engine_id_annotation: str = option(
        "smg.ai/kv-engine-id",
        "Annotation of a pod with its KV engine id: one for each of its ports, separated by commas.",
        section=DISCOVERY,
        form=LABEL_NAME,
    )
    model_id_from: str | None = option(
        None,
        "Take a worker's model id from its pod: namespace, label:<name> or annotation:<name>. What the engine "
        "calls its model becomes an alias.",
        section=DISCOVERY,
        form=MODEL_ID_SOURCE,
    )

    policy: str = option("cache_aware", "How a worker is chosen for a request.", section=ROUTING, choices=POLICY_NAMES)

    pd_disaggregation: bool = option(
        False, "Serve every request by a prefill and a decode worker together.", section=PAIRS
    )
    prefill: tuple[str, ...] = option(
        (),
        "A prefill worker: its URL, and the port of its bootstrap or KV server, or none.",
        section=PAIRS,
        form=PREFILL,
        grouped=True,
    )
    decode: tuple[str, ...] = option((), "The URL of a decode worker.", section=PAIRS, form=WORKER_URL)
    prefill_policy: str | None = option(
        None, "How prefill workers are chosen, if not by --policy.", section=PAIRS, choices=PREFILL_POLICY_NAMES
    )
    decode_policy: str | None = option(
        None, "How decode workers are chosen, if not by --policy.", section=PAIRS, choices=POLICY_NAMES
    )

    cache_threshold: float = option(
        0.3,
        "Share of a prompt that must be known to be cached at a worker before the prompt follows its cache.",
        section=CACHE_AWARE,
        minimum=0,
        maximum=1,
        aliases=("--cache-match-threshold",),
    )
    balance_abs_threshold: int = option(
        64,
        "Requests in flight above the fleet's mean from which a worker counts as hot, if the relative "
        "threshold is passed as well. A hot worker loses its cached prompts to others.",
        section=CACHE_AWARE,
        minimum=0,
        aliases=("--spill-abs-threshold",),
    )
    balance_rel_threshold: float = option(
        1.5,
        "Multiple of the fleet's mean load from which a worker counts as hot, together with the absolute threshold.",
        section=CACHE_AWARE,
        minimum=1,
        aliases=("--spill-rel-threshold",),
    )
    balance_token_usage_threshold: float = option(
        1.0,
        "Difference between the fullest and the emptiest KV cache, as shares of a cache, above which cached prompts "
        "follow load instead. Needs engines that report their usage; 1 or more turns it off.",
        section=CACHE_AWARE,
        above=0,
    )
    overload_token_usage_threshold: float = option(
        1.0,
        "Used share of the fullest KV cache above which cached prompts follow load instead. Needs engines that report "
        "their usage; 1 or more turns it off.",
        section=CACHE_AWARE,
        above=0,
    )
    overlap_decay: float = option(
        0.0,
        "Discount on a cached beginning for the work that waits at its worker: the known length is divided by 1 plus "
        "this times the waiting prompt tokens, beyond the candidate with the fewest, in requests like this one. Needs "
        "engines that report their load; 0 turns it off.",
        section=CACHE_AWARE,
        minimum=0,
    )
    selection_temperature: float = option(
        0.0,
        "Chance in the choice among workers that know a beginning: a softmax over their known lengths, stretched to "
        "0..1. 0 takes the best.",
        section=CACHE_AWARE,
        minimum=0,
    )
    eviction_interval_secs: float = option(
        60.0,
        "Time between two sweeps of cached prefixes and idle routing keys. 0 turns sweeping off, which "
        "cache_aware does not allow.",
        section=CACHE_AWARE,
        minimum=0,
    )
    max_tree_size: int = option(
        67108864,
        "Largest prefix tree of one model, in characters or tokens over all its workers.",
        section=CACHE_AWARE,
        minimum=1,
    )
    block_size: int = option(
        16,
        "Tokens in one page of the engines' KV cache; prefixes match in whole pages.",
        section=CACHE_AWARE,
        minimum=1,
    )
    cache_index: str = option(
        "tree",
        "How prompts are remembered: tree matches any beginning, hash only heads that end at --cache-boundaries, of "
        "prompts whose token ids are known.",
        section=CACHE_AWARE,
        choices=CACHE_INDEXES,
    )
    cache_boundaries: tuple[int, ...] = option(
        (),
        "Token positions at which engines keep reusable prefixes, ascending. The hash index and prefix_hash end the "
        "heads of prompts there.",
        section=CACHE_AWARE,
        minimum=1,
    )
    cache_ttl_secs: float = option(
        180.0,
        "How long the hash index believes that a worker still holds a head; about as long as the engines keep one.",
        section=CACHE_AWARE,
        above=0,
    )

    prefix_token_count: int = option(
        256,
        "Leading tokens of a prompt that are hashed; four times as many characters where tokens are not known.",
        section=PREFIX_HASH,
        minimum=1,
    )
    prefix_hash_load_factor: float = option(
        1.25,
        "Multiple of the mean load from which a worker passes its prompts on.",
        section=PREFIX_HASH,
        minimum=1,
    )
    prefix_hash_balance_abs_threshold: int = option(
        10,
        "Requests in flight above the mean that a worker must also exceed for that.",
        section=PREFIX_HASH,
        minimum=0,
    )

    bucket_adjust_interval_secs: float = option(
        5.0,
        "Seconds between two looks at the lengths of prompts, and how many seconds of them count. The balance "
        "thresholds of cache_aware say when work is too uneven, in characters or tokens.",
        section=BUCKET,
        above=0,
    )

    least_load_kv_pressure_weight: float = option(
        0.15, "Weight of a full KV cache in the expected wait, in seconds.", section=LOAD, minimum=0
    )
    least_load_default_throughput: float = option(
        2000.0, "Tokens per second assumed of a worker that does not report any.", section=LOAD, above=0
    )
    least_load_mean_prefill_tokens: int = option(
        1024, "Prompt tokens assumed of a request whose length is not known.", section=LOAD, minimum=1
    )
    least_load_max_waiting_requests: int = option(
        0,
        "Waiting requests from which least_load leaves a worker out; 0 never does.",
        section=LOAD,
        minimum=0,
    )
    power_of_two_load_metric: str = option(
        "expected_wait",
        "What power_of_two compares of its two workers.",
        section=LOAD,
        choices=LOAD_METRICS,
    )

    load_monitor_interval: float = option(
        10.0,
        "Seconds between two looks at every engine's load. Requests refused because of overload are told to wait "
        "that long.",
        section=OVERLOAD,
        above=0,
    )
    disable_load_monitoring: bool = option(
        False,
        "Look at an engine's load only if the routing policy or overload protection needs it.",
        section=OVERLOAD,
    )
    worker_overload_protection: bool | None = option(
        None,
        "Send nothing to a worker at or above a threshold below, and refuse requests that only such workers could "
        "take. Unset means on if --worker-overload-shed or a threshold is given. A worker with an overload block of "
        "its own is protected in any case.",
        section=OVERLOAD,
        off_flags=("--disable-worker-overload-protection",),
    )
    worker_overload_shed: bool = option(
        False,
        "Turns overload protection on, which always refuses what no worker can take.",
        section=OVERLOAD,
    )
    worker_overload_waiting_requests: int | None = option(
        None,
        "Requests waiting at an engine, over all its ranks, from which its worker is overloaded. Unset means 8.",
        section=OVERLOAD,
        minimum=1,
    )
    worker_overload_token_usage: float | None = option(
        None,
        "Share of an engine's KV cache in use, as a mean over its ranks, from which its worker is overloaded. Unset "
        "means 0.8.",
        section=OVERLOAD,
        above=0,
        maximum=1,
    )

    routing_key_override: bool = option(
        False,
        "Keep all requests with the same routing key on one worker, under any policy. The key is a routing "
        "key header, else the body's rid.",
        section=STICKY,
        aliases=("--sticky-sessions",),
    )
    routing_key_headers: tuple[str, ...] = option(
        ("x-smg-routing-key",),
        "Headers that may carry the routing key; the first valid one counts.",
        section=STICKY,
        form=HEADER_NAME,
    )
    assignment_mode: str | None = option(
        None,
        "Where a new routing key goes: any worker, the one with the fewest requests or the fewest keys, or "
        "as the policy decides. Unset means random for the manual policy and delegate for sticky sessions.",
        section=STICKY,
        choices=ASSIGNMENT_MODES,
    )
    max_idle_secs: float = option(
        14400.0,
        "How long an unused routing key keeps its worker; 0 never forgets one.",
        section=STICKY,
        minimum=0,
        aliases=("--sticky-key-idle-secs",),
    )

    max_payload_size: int = option(
        536870912,
        "Largest request body, and largest answer of a worker that is not a stream, in bytes.",
        section=BODIES,
        minimum=1,
    )
    max_buffered_request_bytes: int = option(
        1048576,
        "Largest body held in memory only so that the request can be retried. A larger one is streamed to "
        "the worker and tried once; 0 holds none.",
        section=BODIES,
        minimum=0,
    )
    stream_body_stall_timeout_secs: float = option(
        300.0,
        "How long a streamed request body may stand still at the caller's side; 0 allows it.",
        section=BODIES,
        minimum=0,
    )
    request_timeout_secs: float = option(
        1800.0, "Time for one exchange with a worker, its stream included.", section=BODIES, above=0
    )
    shutdown_grace_period_secs: float = option(
        180.0, "How long a shutdown waits for requests in flight.", section=BODIES, minimum=0
    )
    header_read_timeout_secs: float = option(
        30.0, "Time a caller has to send a complete request head; 0 sets no limit.", section=BODIES, minimum=0
    )
    idle_connection_timeout_secs: float = option(
        90.0,
        "How long a caller's connection without a request is kept. Stay above the idle time of a proxy in "
        "front; 0 keeps it until the caller closes it.",
        section=BODIES,
        minimum=0,
    )
    sse_keepalive_secs: float = option(
        15.0,
        "Silence of a worker after which an event stream carries a comment, so that proxies do not cut it; "
        "0 sends none.",
        section=BODIES,
        minimum=0,
    )

    max_concurrent_requests: int = option(
        -1,
        "Requests served at the same time, each until its last byte. -1 takes 1024 for each core and at "
        "least 4096; 0 sets no limit.",
        section=ADMISSION,
        minimum=-1,
    )
    queue_size: int = option(
        100, "Requests that may wait for a free place; 0 refuses them at once.", section=ADMISSION, minimum=0
    )
    queue_timeout_secs: float = option(
        60.0, "How long a request may wait for a free place.", section=ADMISSION, minimum=0
    )
    rate_limit_tokens_per_second: int | None = option(
        None,
        "Requests admitted per second in the long run, in bursts up to the concurrency limit. Unset or 0 sets no rate.",
        section=ADMISSION,
        minimum=0,
    )

    priority_scheduler_enabled: bool = option(
        False,
        "Admit requests by the class in their X-SMG-Priority header, into as many slots as the workers have. The limit "
        "and the queue above then do not count, a rate does.",
        section=SCHEDULER,
    )
    priority_scheduler_config: str | None = option(
        None,
        "YAML file with the rules of the classes, and the highest class of some tenants. Unset means the built-in "
        "rules.",
        section=SCHEDULER,
    )
    priority_scheduler_default_max_class: str = option(
        "default",
        "Highest class for tenants that the file does not name; requests for a higher one get this.",
        section=SCHEDULER,
        choices=tuple(PRIORITIES),
    )
    priority_scheduler_tenant_metric_top_n: int = option(
        32,
        "Tenants that have series of their own in the scheduler's metrics, the first to come; the rest share one.",
        section=SCHEDULER,
        minimum=0,
    )

    tenant_rate_limit_enabled: bool = option(
        False,
        "Limit the tokens and requests of each tenant in a minute, as --tenant-rate-limit-config says.",
        section=TENANTS,
    )
    tenant_rate_limit_config: str | None = option(
        None,
        "YAML file with the limits of tenants. Needed for --tenant-rate-limit-enabled.",
        section=TENANTS,
    )
    trust_tenant_header: bool = option(
        False,
        "Believe the tenant that a header names, of callers whom no key identifies. Only behind a proxy that sets it.",
        section=TENANTS,
    )
    tenant_header_name: str = option(
        "x-smg-tenant-id",
        "Header that names the tenant, if it is trusted.",
        section=TENANTS,
        form=HEADER_NAME,
    )

    retry_max_retries: int = option(
        5,
        "Attempts for one request, the first one included: 1 means no retry.",
        section=RETRIES,
        minimum=1,
        applies=("disable_retries", False),
    )
    retry_initial_backoff_ms: int = option(
        50, "Wait before the first retry.", section=RETRIES, minimum=1, applies=("disable_retries", False)
    )
    retry_max_backoff_ms: int = option(
        30000, "Longest wait before a retry.", section=RETRIES, minimum=1, applies=("disable_retries", False)
    )
    retry_backoff_multiplier: float = option(
        1.5,
        "Growth of the wait from one retry to the next.",
        section=RETRIES,
        minimum=1,
        applies=("disable_retries", False),
    )
    retry_jitter_factor: float = option(
        0.2,
        "Share of the wait that is random, in both directions.",
        section=RETRIES,
        minimum=0,
        maximum=1,
        applies=("disable_retries", False),
    )
    disable_retries: bool = option(False, "Try every request once.", section=RETRIES)

    cb_failure_threshold: int = option(
        10,
        "Failures in a row after which a worker gets no more requests.",
        section=BREAKER,
        minimum=1,
        applies=("disable_circuit_breaker", False),
    )
    cb_success_threshold: int = option(
        3,
        "Successes in a row after which a worker on trial is trusted again.",
        section=BREAKER,
        minimum=1,
        applies=("disable_circuit_breaker", False),
    )
    cb_timeout_duration_secs: float = option(
        60.0,
        "Time without requests after which a worker is put on trial.",
        section=BREAKER,
        above=0,
        applies=("disable_circuit_breaker", False),
    )
    cb_window_duration_secs: float = option(
        120.0,
        "Accepted for compatibility; failures are counted in a row, not over a window.",
        section=BREAKER,
        above=0,
        applies=("disable_circuit_breaker", False),
    )
    disable_circuit_breaker: bool = option(
        False, "Never keep requests from a worker because of earlier failures.", section=BREAKER
    )

    health_failure_threshold: int = option(
        3, "Failed probes in a row after which a worker is not ready.", section=HEALTH, minimum=1
    )
    health_success_threshold: int = option(
        2, "Good probes in a row after which a worker is ready again.", section=HEALTH, minimum=1
    )
    health_check_timeout_secs: float = option(5.0, "Time for one probe.", section=HEALTH, above=0)
    health_check_interval_secs: float = option(60.0, "Time between two probes of a worker.", section=HEALTH, above=0)
    health_check_endpoint: str = option(
        "/health", "Path that is probed, appended to the worker's URL.", section=HEALTH, form=URL_PATH
    )
    disable_health_check: bool = option(False, "Probe no worker, unless its registration asks for it.", section=HEALTH)
    remove_unhealthy_workers: bool | None = option(
        None,
        "Remove workers that stay unhealthy, for service discovery to register them anew when they are back. Unset "
        "means on under service discovery.",
        section=HEALTH,
        aliases=("--worker-auto-recovery",),
        off_flags=("--no-remove-unhealthy-workers", "--no-worker-auto-recovery"),
    )

    enable_rl: bool = option(
        False,
        "Serve the RL control plane under /v1/rl: list the engines, and call their own routes, on one or many at once. "
        "Whoever may call it may do anything that an engine offers.",
        section=CONTROL,
    )
    rl_control_timeout_secs: float = option(
        600.0,
        "Time for one control call to an engine, from connecting to the last byte of its answer.",
        section=CONTROL,
        minimum=1,
        applies=("enable_rl", True),
    )
    rl_fanout_concurrency: int = option(
        32,
        "Engines that one fan-out calls at the same time.",
        section=CONTROL,
        minimum=1,
        applies=("enable_rl", True),
    )

    log_level: str = option("info", "Least severe messages that are logged.", section=LOGS, choices=LOG_LEVELS)
    log_dir: str | None = option(
        None,
        "Directory for a log file a day, beside the log on the console. It is created if missing.",
        section=LOGS,
    )
    log_json: bool = option(False, "Log one JSON object a line.", section=LOGS)
    request_id_headers: tuple[str, ...] = option(
        ("x-request-id", "x-correlation-id", "x-trace-id", "request-id"),
        "Headers that may carry a caller's request id; the first one present counts.",
        section=LOGS,
        form=HEADER_NAME,
    )

    prometheus_host: str | None = option(
        None,
        "Address the metrics listen on. Unset means all interfaces, of the IP version of --host.",
        section=METRICS,
        form=HOST,
    )
    prometheus_port: int = option(29000, "Port the metrics listen on.", section=METRICS, minimum=1, maximum=_MAX_PORT)
    prometheus_duration_buckets: tuple[float, ...] = option(
        DURATION_BUCKETS_SECS,
        "Upper bounds of the buckets of every duration histogram, in seconds and ascending.",
        section=METRICS,
        above=0,
    )

    api_key: str | None = option(
        None,
        "Key that callers must send. It is also sent to the workers of --worker-urls, and to discovered "
        "ones, when a caller sent none. Prefer the variable: command lines can be read by others on the machine.",
        section=AUTH,
        form=KEY,
        secret=True,
    )
    tenant_api_key: tuple[str, ...] = option(
        (),
        "Key of one tenant, for serving routes only. Its requests count as that tenant's. A tenant may have several.",
        section=AUTH,
        form=TENANT_KEY,
        secret=True,
    )
    control_plane_api_keys: tuple[str, ...] = option(
        (),
        "Key of the control plane. With one, or with --jwt-issuer, admin routes (the RL control plane included) open "
        "for the role admin only, and no longer for --api-key.",
        section=AUTH,
        form=CONTROL_PLANE_KEY,
        secret=True,
    )
    control_plane_audit_enabled: bool = option(
        True,
        "Log who used the control plane for what, as control_plane_audit events. It concerns its keys and tokens only.",
        section=AUTH,
        off_flags=("--disable-audit-logging",),
    )
    jwt_issuer: str | None = option(
        None,
        "Who signs the tokens that open the control plane: the `iss` they carry, and where the keys are found.",
        section=AUTH,
        form=ISSUER,
    )
    jwt_audience: str | None = option(
        None, "The `aud` that tokens of the issuer must carry.", section=AUTH, form=AUDIENCE
    )
    jwt_jwks_uri: str | None = option(
        None,
        "Where the issuer publishes its keys. Unset means that its /.well-known/openid-configuration says so.",
        section=AUTH,
        form=ISSUER,
    )
    jwt_role_mapping: tuple[str, ...] = option(
        (),
        "What a role in a token stands for here. Without any, the roles admin and user stand for themselves.",
        section=AUTH,
        form=ROLE_MAPPING,
    )

    cors_allowed_origins: tuple[str, ...] = option(
        (),
        "Origins whose web pages may call the gateway, or * for any. Without one, browsers keep all of them out.",
        section=AUTH,
        form=ORIGIN,
    )


OPTIONS: Final[tuple[Option, ...]] = table_of(Settings)
