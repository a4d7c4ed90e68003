"""The kinds of run: one gateway, one load, one set of figures. A workload is a kind with its numbers.

What a whole fleet behind a gateway shows is in `fleet_runs.py`, what needs no gateway at all in `lone_runs.py`.
"""

import subprocess
import time
from collections.abc import Callable

from bench.conversations import PROFILES
from bench.gateways import Gateway, Side
from bench.processes import ChildFailedError, read_json_line
from bench.stage import GRACE_SECS, Fleet, Stage, Workers
from bench.stats import quarter_growth

Figures = dict[str, float]
# With the flags of the gateway, and the fleet behind it.
Run = Callable[[Stage, Side, tuple[str, ...], Fleet], Figures]
Play = Callable[[Stage, Gateway, Workers], Figures]

_SETTLE_SECS = 2.0
_SAMPLE_SECS = 0.1
# A bounded number of requests ends by itself; this only stops a gateway that hardly answers.
_SOAK_LIMIT_SECS = 240.0
_UPLOAD_LIMIT_SECS = 120.0


def played(play: Play) -> Run:
    """A run of a fresh gateway in front of a fresh fleet: it inherits nothing from any other."""

    def run(stage: Stage, side: Side, flags: tuple[str, ...], fleet: Fleet) -> Figures:
        with stage.workers(fleet) as workers, stage.gateway(side, workers, flags) as gateway:
            start_figures = {"ready_secs": gateway.ready_secs, "all_ready_secs": gateway.all_ready_secs}
            return start_figures | play(stage, gateway, workers)

    return run


def chat(connections: int, prompt_bytes: int = 0) -> Run:
    """A closed loop of plain chat requests."""

    @played
    def run(stage: Stage, gateway: Gateway, workers: Workers) -> Figures:
        return stage.run_load(
            "bench.load_chat",
            gateway=gateway,
            workers=workers,
            seconds=stage.settings.seconds,
            connections=connections,
            prompt_bytes=prompt_bytes,
        )

    return run


def settled_chats(connections: int, kilobytes: int) -> Run:
    """What bringing a chat into its form costs by profile, as a share of the processor time of that very request."""

    @played
    def run(stage: Stage, gateway: Gateway, workers: Workers) -> Figures:
        core = stage.settings.gateway_core
        alone = stage.children.finish(
            stage.start_module("bench.settling", "--json", core=core, kilobytes=kilobytes), GRACE_SECS
        )
        shares = {}
        for name, model in PROFILES.items():
            whole = stage.run_load(
                "bench.load_chat",
                gateway=gateway,
                workers=workers,
                seconds=stage.settings.seconds / 2,
                connections=connections,
                prompt_bytes=kilobytes * 1024,
                model=model,
            )
            shares[f"{name}_share"] = alone[f"{name}_us"] / whole["cpu_us"]
        return shares

    return run


@played
def upload(stage: Stage, gateway: Gateway, workers: Workers) -> Figures:
    """Memory while one large recording passes."""
    load = stage.start_load("bench.load_upload", gateway=gateway, workers=workers)
    return stage.children.finish(load, _UPLOAD_LIMIT_SECS)


def conversations(connections: int, count: int, prefix_bytes: int) -> Run:
    """A closed loop of conversations that grow turn by turn, several of them with the same beginning."""

    @played
    def run(stage: Stage, gateway: Gateway, workers: Workers) -> Figures:
        return stage.run_load(
            "bench.load_chat",
            gateway=gateway,
            workers=workers,
            seconds=stage.settings.seconds,
            connections=connections,
            conversations=count,
            prompt_bytes=prefix_bytes,
        )

    return run


def streams(count: int) -> Run:
    """So many streams at all times. The workers set the pace, or none."""

    @played
    def run(stage: Stage, gateway: Gateway, workers: Workers) -> Figures:
        return stage.run_load(
            "bench.load_streams",
            "steady",
            gateway=gateway,
            workers=workers,
            seconds=stage.settings.seconds,
            streams=count,
        )

    return run


@played
def start(_stage: Stage, _gateway: Gateway, _workers: Workers) -> Figures:
    """Nothing but the start, which every run times."""
    return {}


def memory(streams: int) -> Run:
    """Resident memory of a gateway without traffic, then with so many silent streams open."""

    @played
    def run(stage: Stage, gateway: Gateway, workers: Workers) -> Figures:
        time.sleep(_SETTLE_SECS)
        idle: Figures = {"idle_rss_kb": gateway.rss_kb(), "idle_pss_kb": gateway.pss_kb()}
        load = stage.start_load("bench.load_streams", "held", gateway=gateway, workers=workers, streams=streams)
        held = read_json_line(load)["streams"]
        time.sleep(_SETTLE_SECS)
        loaded: Figures = {"streams_rss_kb": gateway.rss_kb(), "streams_pss_kb": gateway.pss_kb()}
        still_open = workers.open_streams()
        stage.children.kill(load)
        if still_open != held:
            raise ChildFailedError(f"{still_open} of {held} streams were open while memory was read")
        return idle | loaded

    return run


def soak_requests(requests: int, connections: int) -> Run:
    """Memory over many requests, after a tenth of them has warmed every cache."""

    @played
    def run(stage: Stage, gateway: Gateway, workers: Workers) -> Figures:
        options = {"connections": connections, "seconds": _SOAK_LIMIT_SECS}
        warm_up = stage.start_load(
            "bench.load_chat", gateway=gateway, workers=workers, requests=requests // 10, **options
        )
        stage.children.finish(warm_up, _SOAK_LIMIT_SECS + GRACE_SECS)
        load = stage.start_load("bench.load_chat", gateway=gateway, workers=workers, requests=requests, **options)
        samples = _sample_rss_kb(gateway, load)
        figures = stage.children.finish(load, GRACE_SECS)
        if figures["requests"] < requests:
            raise ChildFailedError(f"only {figures['requests']:.0f} of {requests} requests in {_SOAK_LIMIT_SECS:.0f} s")
        return figures | _memory_figures(samples)

    return run


def soak_aborts(streams: int, at_once: int) -> Run:
    """Memory over many streams whose clients leave, and whether the workers were told that they left."""

    @played
    def run(stage: Stage, gateway: Gateway, workers: Workers) -> Figures:
        def drop(total: int) -> subprocess.Popen[str]:
            return stage.start_load(
                "bench.load_streams",
                "aborted",
                gateway=gateway,
                workers=workers,
                streams=at_once,
                total=total,
                seconds=_SOAK_LIMIT_SECS,
            )

        stage.children.finish(drop(streams // 10), _SOAK_LIMIT_SECS + GRACE_SECS)
        load = drop(streams)
        samples = _sample_rss_kb(gateway, load)
        figures = stage.children.finish(load, GRACE_SECS)
        time.sleep(_SETTLE_SECS / 2)  # shorter than a stream: what is open now was never cancelled
        return figures | _memory_figures(samples) | {"streams_left_open": float(workers.open_streams())}

    return run


def _sample_rss_kb(gateway: Gateway, load: subprocess.Popen[str]) -> list[int]:
    samples = [gateway.rss_kb()]
    while load.poll() is None:
        time.sleep(_SAMPLE_SECS)
        samples.append(gateway.rss_kb())
    return samples


def _memory_figures(samples: list[int]) -> Figures:
    return {
        "growth_kb": quarter_growth(samples),
        "first_rss_kb": float(samples[0]),
        "last_rss_kb": float(samples[-1]),
        "rss_samples": float(len(samples)),
    }
