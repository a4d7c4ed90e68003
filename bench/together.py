"""The kinds of run in which all gateways are there at once and are asked in turns; `turns.py` says why."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass

from bench.gateways import Gateway, Side
from bench.runs import Figures
from bench.stage import GRACE_SECS, Fleet, Stage, Workers
from bench.turns import Contestant

_FANOUT_LIMIT_SECS = 240.0
_REST_SECS = 3.5  # longer than our gateway keeps control connections


@dataclass(frozen=True, slots=True)
class Together:
    """A run of fresh gateways in front of one fresh fleet; it tells the figures of each by name."""

    play: Callable[[Stage, dict[str, Gateway], Workers], dict[str, Figures]]

    def __call__(
        self, stage: Stage, entries: Sequence[tuple[Side, tuple[str, ...]]], fleet: Fleet
    ) -> dict[str, Figures]:
        with ExitStack() as running:
            workers = running.enter_context(stage.workers(fleet))
            gateways = {
                side.name: running.enter_context(stage.gateway(side, workers, flags)) for side, flags in entries
            }
            return self.play(stage, gateways, workers)


def alone(*, awake: bool = False) -> Together:
    """One caller with one request at a time; nobody else is there. The cores may sleep or be kept `awake`."""

    def play(stage: Stage, gateways: dict[str, Gateway], _workers: Workers) -> dict[str, Figures]:
        secs = stage.settings.seconds
        with stage.awake() if awake else nullcontext():
            return _in_turns(stage, "bench.load_alone", gateways, secs * len(gateways) + GRACE_SECS, seconds=secs)

    return Together(play)


def fan_outs(rounds: int, *, rested: bool = False) -> Together:
    """So many control calls to all engines at once, in a row or each after a rest."""

    def play(stage: Stage, gateways: dict[str, Gateway], workers: Workers) -> dict[str, Figures]:
        return _in_turns(
            stage,
            "bench.load_fanout_turns",
            gateways,
            _FANOUT_LIMIT_SECS,
            engine_port=workers.ports[0],
            rounds=rounds,
            rest_secs=_REST_SECS if rested else 0.0,
        )

    return Together(play)


def _in_turns(
    stage: Stage, module: str, gateways: dict[str, Gateway], limit_secs: float, **options: float
) -> dict[str, Figures]:
    """What a load generator found out that asks them in turns."""
    words = [str(Contestant(name, gateway.port, gateway.pid)) for name, gateway in gateways.items()]
    child = stage.start_module(module, *words, core=stage.settings.load_core, **options)
    figures: dict[str, Figures] = stage.children.output(child, limit_secs)
    return figures
