"""Runs in which the fleet behind the gateway is the point: where prompts go, how workers come, who is told to pause."""

from bench.gateways import Gateway
from bench.processes import ChildFailedError
from bench.runs import Figures, Run, played
from bench.stage import GRACE_SECS, Fleet, Stage, Workers, fake_workers

# A trace ends by itself; this only stops a gateway that hardly answers.
_TRACE_LIMIT_SECS = 120.0
_REGISTRATION_LIMIT_SECS = 120.0
_FANOUT_LIMIT_SECS = 120.0


def trace_hits(connections: int) -> Run:
    """Play the trace against simulated engines; they say how much of the prompts they found in their caches."""

    @played
    def run(stage: Stage, gateway: Gateway, workers: Workers) -> Figures:
        load = stage.start_load("bench.load_trace", gateway=gateway, workers=workers, connections=connections)
        figures = stage.children.finish(load, _TRACE_LIMIT_SECS)
        states = [workers.get(port, "/sim/state") for port in workers.ports]
        prompt_tokens = sum(state["prompt_tokens"] for state in states)
        served = sum(state["served"] for state in states)
        if served != figures["requests"]:
            raise ChildFailedError(f"{served} answers were generated for {figures['requests']:.0f} requests")
        busiest = max(state["prompt_tokens"] for state in states)
        return figures | {
            "prompt_tokens": float(prompt_tokens),
            "hit_ratio": sum(state["cached_tokens"] for state in states) / prompt_tokens,
            "busiest_share": busiest * len(states) / prompt_tokens,
        }

    return run


def registration(count: int) -> Run:
    """Register so many more workers in one burst, while requests go on."""

    @played
    def run(stage: Stage, gateway: Gateway, workers: Workers) -> Figures:
        with stage.workers(fake_workers(count=count)) as newcomers:
            load = stage.start_load(
                "bench.load_registration",
                gateway=gateway,
                workers=workers,
                present=len(workers.ports),
                newcomers=",".join(map(str, newcomers.ports)),
                seconds=_REGISTRATION_LIMIT_SECS,
            )
            return stage.children.finish(load, _REGISTRATION_LIMIT_SECS + GRACE_SECS)

    return run


def sessions(count: int) -> Run:
    """Realtime sessions with one worker that is registered for them, first one way and then the other."""

    @played
    def run(stage: Stage, gateway: Gateway, workers: Workers) -> Figures:
        with stage.workers(Fleet("bench.speakers")) as speaker:
            return stage.run_load(
                "bench.load_realtime",
                gateway=gateway,
                workers=speaker,
                seconds=stage.settings.seconds,
                sessions=count,
                speaker=speaker.ports[0],
                present=len(workers.ports),
            )

    return run


def fan_out(kind: str, **options: float) -> Run:
    """Control calls to all engines at once; `kind` says under which circumstances."""

    @played
    def run(stage: Stage, gateway: Gateway, workers: Workers) -> Figures:
        load = stage.start_load("bench.load_fanout", kind, gateway=gateway, workers=workers, **options)
        return stage.children.finish(load, _FANOUT_LIMIT_SECS)

    return run
