"""The table of workloads: what is run, what is read off, and what is aimed at.

A workload without flags runs with the defaults of both gateways.
"""

from dataclasses import dataclass

from bench import runs
from bench.stats import Target


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of a run, as it is shown. Without a target it is shown for information."""

    key: str
    title: str
    unit: str
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    title: str
    run: runs.Run
    measures: tuple[Measure, ...]
    flags: tuple[str, ...] = ()
    chunks: int = 200  # events of a streamed answer
    interval_ms: float = 10.0  # between two events of one stream
    ours_only: bool = False
    most_pairs: int = 100  # for runs where more repetition tells nothing new


_ROUND_ROBIN = ("--policy", "round_robin")
_PROCESSOR_TIME = Measure("cpu_us", "processor time per request", "us")
_RATE = Measure("rps", "requests per second", "req/s", Target(">=", 1.5))
_SILENT_MS = 3_600_000.0  # a first event, and nothing more while the run lasts
_FLAT = Measure("growth_kb", "memory growth, first to last quarter", "KB", Target("<=", 1024, of_ours=True))

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
        runs.chat(1),
        (
            Measure("p50_us", "median latency", "us", Target("<=", 0.7)),
            Measure("p99_us", "99th percentile of latency", "us"),
        ),
        flags=_ROUND_ROBIN,
    ),
    Workload(
        "streams",
        "64 streams of 200 events, one every 4 ms each",
        runs.paced_streams(64),
        (
            Measure("cpu_per_event_us", "processor time per event", "us", Target("<=", 0.7)),
            Measure("events_per_sec", "events per second", "events/s"),
        ),
        interval_ms=4.0,
    ),
    Workload("prompt-128k", "prompts of 128 KB, 8 connections", runs.chat(8, 131_072), (_RATE, _PROCESSOR_TIME)),
    Workload("prompt-1m", "prompts of 1 MB, 8 connections", runs.chat(8, 1_048_576), (_RATE, _PROCESSOR_TIME)),
    Workload(
        "memory",
        "resident memory",
        runs.memory(1000),
        (
            Measure("idle_rss_kb", "idle", "KB", Target("<=", 1.0)),
            Measure("streams_rss_kb", "1,000 open streams", "KB", Target("<=", 1.0)),
        ),
        interval_ms=_SILENT_MS,
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
)
