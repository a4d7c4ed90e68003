"""One caller with one request at a time: `python -m bench.load_alone`, which asks all gateways it is given in turns.

What it shows is the way through a gateway with nobody else on it, so the caller is as lean as can be: an event loop of
its own would be a part of every figure.
"""

import argparse
import time
from functools import partial

from bench import turns, wire
from bench.lean_http import LeanClient
from bench.stats import percentile

_A_TURN = 40
_UNCOUNTED = 4  # the first requests of a turn find a gateway that has slept meanwhile
_WARMUP = 500


class Caller:
    """The one client of a gateway."""

    def __init__(self, gateway: turns.Contestant) -> None:
        self._client = LeanClient(gateway.port)
        self._request = wire.chat_request(gateway.port, wire.chat_body())
        self._latencies_secs: list[float] = []
        self._asked = 0
        self._ask(_WARMUP)
        self._cost = turns.CostClock(gateway)

    def take_turn(self) -> None:
        self._asked += _A_TURN
        self._latencies_secs += self._ask(_A_TURN)[_UNCOUNTED:]

    def figures(self) -> dict[str, float]:
        ordered = sorted(self._latencies_secs)
        return {
            "requests": float(self._asked),
            "cpu_us": self._cost.secs() / self._asked * 1e6,
            **{f"p{rank}_us": percentile(ordered, rank) * 1e6 for rank in (50, 90, 99)},
        }

    def _ask(self, count: int) -> list[float]:
        latencies_secs = []
        asked_at = time.perf_counter()
        for _ in range(count):
            self._client.ask(self._request)
            now = time.perf_counter()
            latencies_secs.append(now - asked_at)
            asked_at = now
        return latencies_secs


def run(args: argparse.Namespace) -> dict[str, dict[str, float]]:
    callers = {gateway.name: Caller(gateway) for gateway in args.gateways}
    end = time.perf_counter() + args.seconds * len(callers)
    while time.perf_counter() < end:
        for caller in callers.values():
            caller.take_turn()
    return {name: caller.figures() for name, caller in callers.items()}


def main() -> None:
    parser = turns.parser_of("bench.load_alone")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each gateway")
    turns.report("bench.load_alone", partial(run, parser.parse_args()))


if __name__ == "__main__":
    main()
