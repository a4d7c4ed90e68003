"""Runs without a gateway: modules of this suite that call a part of it, alone on the gateway's core."""

from bench.gateways import Side
from bench.runs import Figures, Run
from bench.stage import Fleet, Stage

_LIMIT_SECS = 600.0


def module(name: str, **options: float) -> Run:
    """A module that measures by itself and prints its figures as one JSON object."""

    def run(stage: Stage, _side: Side, _flags: tuple[str, ...], _fleet: Fleet) -> Figures:
        child = stage.start_module(name, "--json", core=stage.settings.gateway_core, **options)
        return stage.children.finish(child, _LIMIT_SECS)

    return run
