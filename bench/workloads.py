"""The table of workloads: what is run, what is read off, and what is aimed at.

A workload without flags runs with the defaults of both gateways.
"""

from dataclasses import dataclass

from bench import fleet_runs, lone_runs, runs, together
from bench.stage import Fleet, fake_workers, lean_engines, sim_engines
from bench.stats import Target


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of a run, as it is shown. Without a target it is shown for information."""

    key: str
    title: str
    unit: str
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class Rival:
    """Our own gateway with other flags, in the published one's place."""

    name: str
    flags: tuple[str, ...]


_TWO_WORKERS = fake_workers()


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    title: str
    run: runs.Run | together.Together
    measures: tuple[Measure, ...]
    flags: tuple[str, ...] = ()
    fleet: Fleet = _TWO_WORKERS
    ours_only: bool = False
    rival: Rival | None = None
    pairs_times: int = 1  # so many times the pairs, for short runs in which every neighbour shows
    most_pairs: int = 100  # for runs where more repetition tells nothing new

    @property
    def opponent(self) -> str:
        """The side that ours is divided by."""
        return self.rival.name if self.rival is not None else "published"

    @property
    def needs_ours(self) -> bool:
        return self.ours_only or self.rival is not None


_ROUND_ROBIN = ("--policy", "round_robin")
_PROCESSOR_TIME = Measure("cpu_us", "processor time per request", "us")
_RATE = Measure("rps", "requests per second", "req/s", Target(">=", 1.5))
_HITS = Measure("hit_ratio", "prompt tokens found in the engines' caches", "share", Target(">=", 1.0))
_CONTROL_MS = 20.0
_ROUNDS = 100
_RESTED_ROUNDS = 5
_WITHIN_5_MS = Measure("overhead_us", "the same, alone", "us", Target("<=", 5000, of_ours=True))
_SILENT_MS = 3_600_000.0  # a first event, and nothing more while the run lasts
_FLAT = Measure("growth_kb", "memory growth, first to last quarter", "KB", Target("<=", 1024, of_ours=True))

_RELAYED = Target(">=", 1.0, or_ours=1e9)
_EVENTS_PER_SECOND = Measure("events_per_sec", "events per second", "events/s")
# Six engines hold the prompts of all applications and of the conversations that are open, if each is kept once.
_ENGINES = sim_engines(
    6,
    kv_capacity_tokens=16_000,
    max_running_requests=16,
    prefill_tokens_per_second=200_000.0,
    tokens_per_second=4_000.0,
)
_TRACE = fleet_runs.trace_hits(16)


def _chat_growing(kilobytes: int) -> Workload:
    return Workload(
        f"turns-{kilobytes}k",
        f"64 conversations with shared beginnings of {kilobytes} KB, 32 connections, default policy",
        runs.conversations(32, 64, kilobytes * 1024),
        (_RATE, _PROCESSOR_TIME),
    )


def _choice(key: str, title: str) -> Measure:
    return Measure(f"{key}_us", title, "us", Target("<=", 200, of_ours=True))


def _index(name: str, title: str, most_held: int, most_mb: int) -> tuple[Measure, ...]:
    return (
        Measure(f"{name}_held", f"{title}, held", "", Target("<=", most_held, of_ours=True)),
        Measure(f"{name}_kb", f"{title}, memory", "KB", Target("<=", most_mb * 1024, of_ours=True)),
        Measure(f"{name}_each_us", f"{title}, a choice with its eviction", "us"),
    )


WORKLOADS = (
    Workload(
        "chat",
        "chat, 32 connections, round robin",
        runs.chat(32),
        (
            Measure("rps", "requests per second", "req/s", Target(">=", 2.5)),
            _PROCESSOR_TIME,
            Measure("p50_us", "median latency", "us"),
            Measure("p99_us", "99th percentile of latency", "us"),
        ),
        flags=_ROUND_ROBIN,
    ),
    Workload(
        "latency",
        "chat, one connection, round robin",
        together.alone(),
        (
            Measure("p50_us", "median latency", "us", Target("<=", 0.7)),
            Measure("p99_us", "99th percentile of latency", "us"),
            _PROCESSOR_TIME,
        ),
        flags=_ROUND_ROBIN,
        fleet=lean_engines(2),
    ),
    Workload(
        "latency-awake",
        "chat, one connection, round robin, on cores that are kept awake",
        together.alone(awake=True),
        (Measure("p50_us", "median latency", "us"),),
        flags=_ROUND_ROBIN,
        fleet=lean_engines(2),
    ),
    Workload(
        "streams",
        "64 streams of 200 events, as fast as they come",
        runs.streams(64),
        (Measure("cpu_per_event_us", "processor time per event", "us", Target("<=", 0.7)), _EVENTS_PER_SECOND),
        fleet=fake_workers(interval_ms=0),
        pairs_times=3,
    ),
    Workload(
        "paced-streams",
        "64 streams of 200 events, one every 4 ms each",
        runs.streams(64),
        (Measure("cpu_per_event_us", "processor time per event", "us"), _EVENTS_PER_SECOND),
        fleet=fake_workers(interval_ms=4.0),
    ),
    Workload(
        "realtime",
        "4 realtime sessions, frames of 64 KB one way",
        fleet_runs.sessions(4),
        (
            Measure("down_per_sec", "from worker to client", "B/s", _RELAYED),
            Measure("up_per_sec", "from client to worker", "B/s", _RELAYED),
            Measure("down_frame_us", "processor time per frame to the client", "us"),
            Measure("up_frame_us", "processor time per frame to the worker", "us"),
        ),
    ),
    Workload("prompt-128k", "prompts of 128 KB, 8 connections", runs.chat(8, 131_072), (_RATE, _PROCESSOR_TIME)),
    Workload("prompt-1m", "prompts of 1 MB, 8 connections", runs.chat(8, 1_048_576), (_RATE, _PROCESSOR_TIME)),
    *map(_chat_growing, (2, 8, 32)),
    Workload("trace", "a trace of conversations, 6 engines, default policy", _TRACE, (_HITS,), fleet=_ENGINES),
    Workload(
        "trace-policy",
        "the same trace, against round robin",
        _TRACE,
        (Measure(_HITS.key, _HITS.title, _HITS.unit, Target(">=", 1.5)),),
        fleet=_ENGINES,
        rival=Rival("round robin", _ROUND_ROBIN),
    ),
    Workload(
        "settling",
        "rules and profiles, of a chat of 32 KB",
        runs.settled_chats(8, 32),
        tuple(
            Measure(f"{name}_share", title, "share", Target("<=", 0.15, of_ours=True))
            for name, title in (
                ("baseline", "no profile"),
                ("kimi", "Kimi"),
                ("kimi_k3", "Kimi K3"),
                ("minimax", "MiniMax"),
                ("zai", "z.ai"),
                ("glm_53", "GLM-5.3"),
                ("deepseek_v4", "DeepSeek V4"),
                ("deepseek_v41", "DeepSeek V4.1"),
            )
        ),
        flags=_ROUND_ROBIN,
        fleet=fake_workers(anonymous=1),
        ours_only=True,
    ),
    Workload(
        "upload",
        "a recording of 500 MiB",
        runs.upload,
        (Measure("growth_kb", "memory growth", "KB", Target("<=", 32 * 1024, of_ours=True)),),
        most_pairs=2,
    ),
    Workload(
        "memory",
        "resident memory",
        runs.memory(1000),
        (
            Measure("idle_rss_kb", "idle", "KB", Target("<=", 1.0)),
            Measure("streams_rss_kb", "1,000 open streams", "KB", Target("<=", 1.0)),
        ),
        fleet=fake_workers(interval_ms=_SILENT_MS),
        most_pairs=3,
    ),
    Workload(
        "start",
        "start with two live workers",
        runs.start,
        (
            Measure("ready_secs", "until ready", "s", Target("<=", 1.0, of_ours=True)),
            Measure("all_ready_secs", "until both workers serve", "s"),
        ),
    ),
    Workload(
        "soak-requests",
        "100,000 requests",
        runs.soak_requests(100_000, 32),
        (_FLAT,),
        flags=_ROUND_ROBIN,
        ours_only=True,
        most_pairs=1,
    ),
    Workload(
        "soak-aborts",
        "10,000 aborted streams",
        runs.soak_aborts(10_000, 64),
        (
            _FLAT,
            Measure("streams_left_open", "streams never cancelled", "", Target("<=", 0, of_ours=True)),
        ),
        flags=_ROUND_ROBIN,
        ours_only=True,
        most_pairs=1,
    ),
    Workload(
        "registration",
        "1,000 workers registered in a burst, 4 clients sending",
        fleet_runs.registration(1000),
        (
            Measure("registered_secs", "until all serve", "s", Target("<=", 10, of_ours=True)),
            Measure("quiet_p99_us", "99th percentile of latency before", "us"),
            Measure("during_p99_us", "99th percentile of latency meanwhile", "us"),
        ),
        most_pairs=3,
    ),
    *(
        Workload(
            f"fanout-{engines}",
            f"a fan-out to {engines} engines that take {_CONTROL_MS:.0f} ms",
            together.fan_outs(_ROUNDS),
            (
                Measure("overhead_us", "time beyond the slowest engine's", "us", Target("<=", 0.5)),
                *more,
                Measure("cpu_us", "processor time per fan-out", "us"),
            ),
            flags=("--enable-rl", "--rl-fanout-concurrency", str(engines)),
            fleet=lean_engines(engines, _CONTROL_MS),
        )
        for engines, more in ((32, (_WITHIN_5_MS,)), (256, ()))
    ),
    *(
        Workload(
            f"fanout-{engines}-rested",
            f"a fan-out to {engines} engines that take {_CONTROL_MS:.0f} ms, after a rest",
            together.fan_outs(_RESTED_ROUNDS, rested=True),
            (Measure("overhead_us", "time beyond the slowest engine's", "us"),),
            flags=("--enable-rl", "--rl-fanout-concurrency", str(engines)),
            fleet=lean_engines(engines, _CONTROL_MS),
            most_pairs=3,
        )
        for engines in (32, 256)
    ),
    Workload(
        "fanout-busy",
        "a fan-out to 32 engines while 300 streams run",
        fleet_runs.fan_out("busy", streams=300),
        (
            Measure("slower", "time, compared with an idle gateway", "times", Target("<=", 1.5, of_ours=True)),
            Measure("busy_us", "time", "us"),
        ),
        flags=("--enable-rl", *_ROUND_ROBIN),
        fleet=fake_workers(count=32, interval_ms=50.0, control_ms=_CONTROL_MS),
    ),
    Workload(
        "fanout-large",
        "a fan-out to 64 engines that answer with 1 MiB each",
        fleet_runs.fan_out("large"),
        (Measure("growth_kb", "memory growth", "KB", Target("<=", 48 * 1024, of_ours=True)),),
        flags=("--enable-rl",),
        fleet=fake_workers(count=64, control_ms=5.0),
        most_pairs=3,
    ),
    Workload(
        "selection",
        "choosing among 1,000 workers",
        lone_runs.module("bench.selection"),
        (
            _choice("cache_aware", "cache_aware"),
            _choice("least_load", "least_load"),
            _choice("least_load_capped", "least_load with a cap on waiting requests"),
            _choice("bucket", "bucket"),
            _choice("round_robin", "round_robin"),
            _choice("power_of_two", "power_of_two"),
            _choice("prefix_hash", "prefix_hash"),
            _choice("consistent_hashing", "consistent_hashing"),
            _choice("manual", "manual"),
            _choice("random", "random"),
            _choice("passthrough", "passthrough"),
            Measure("growth", "most growth from 10 to 1,000 workers", "times", Target("<=", 100, of_ours=True)),
        ),
        ours_only=True,
        most_pairs=1,
    ),
    Workload(
        "index-memory",
        "1 million distinct prompts of 4 KB",
        lone_runs.module("bench.index_memory"),
        (
            *_index("text", "tree of text", 67_108_864, 128),
            *_index("tokens", "tree of tokens", 67_108_864, 512),
        ),
        ours_only=True,
        most_pairs=1,
    ),
)
