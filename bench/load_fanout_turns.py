"""Fan-outs of a trainer to a fleet that does nothing else: `python -m bench.load_fanout_turns`.

It asks all gateways it is given in turns, and counts how much longer each fan-out takes than the slowest engine does.
With `--rest-secs` there is one fan-out a turn, and a rest before the turns of all.
"""

import argparse
import json
import statistics
import time
from functools import partial

from bench import turns, wire
from bench.lean_http import LeanClient
from bench.stats import percentile

_A_TURN = 5
_UNCOUNTED = 1  # the first of a turn finds a gateway that has slept meanwhile
_WARMUP = 5


class LeanTrainer:
    """A trainer that costs as little as a client can."""

    def __init__(self, gateway: turns.Contestant, engine_port: int) -> None:
        self._gateway = LeanClient(gateway.port)
        self._engine = LeanClient(engine_port)
        self._fan_out = wire.fan_out(wire.CONTROL_PATH, gateway.port)
        self._slowest = wire.request("GET", f"/{wire.SLOWEST_PATH}", engine_port)
        self._beyond_secs: list[float] = []
        self._asked = 0
        self._ask(_WARMUP)
        self._cost = turns.CostClock(gateway)

    def take_turn(self, count: int, uncounted: int) -> None:
        self._asked += count
        self._beyond_secs += self._ask(count)[uncounted:]

    @property
    def counted(self) -> int:
        return len(self._beyond_secs)

    def figures(self) -> dict[str, float]:
        ordered = sorted(self._beyond_secs)
        return {
            "overhead_us": statistics.median(ordered) * 1e6,
            "overhead_p10_us": percentile(ordered, 10) * 1e6,
            "overhead_p90_us": percentile(ordered, 90) * 1e6,
            "cpu_us": self._cost.secs() / self._asked * 1e6,
        }

    def _ask(self, count: int) -> list[float]:
        """How much longer each of so many fan-outs took than its slowest engine, in seconds."""
        beyond_secs = []
        for _ in range(count):
            sent_at = time.perf_counter()
            report = self._gateway.ask(self._fan_out)
            took_secs = time.perf_counter() - sent_at
            check_report(json.loads(report))
            beyond_secs.append(took_secs - json.loads(self._engine.ask(self._slowest)))
        return beyond_secs


def check_report(report: dict[str, int]) -> None:
    """Raises RuntimeError unless every engine did what was asked."""
    if not report["total"] or report["succeeded"] != report["total"]:
        raise RuntimeError(f"{report['succeeded']} of {report['total']} engines did what was asked")


def run(args: argparse.Namespace) -> dict[str, dict[str, float]]:
    trainers = {gateway.name: LeanTrainer(gateway, args.engine_port) for gateway in args.gateways}
    count, uncounted = (1, 0) if args.rest_secs else (_A_TURN, _UNCOUNTED)
    while min(trainer.counted for trainer in trainers.values()) < args.rounds:
        time.sleep(args.rest_secs)
        for trainer in trainers.values():
            trainer.take_turn(count, uncounted)
    return {name: trainer.figures() for name, trainer in trainers.items()}


def main() -> None:
    parser = turns.parser_of("bench.load_fanout_turns")
    parser.add_argument("--engine-port", type=int, required=True, help="of any of the engines")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--rest-secs", type=float, default=0.0)
    turns.report("bench.load_fanout_turns", partial(run, parser.parse_args()))


if __name__ == "__main__":
    main()
