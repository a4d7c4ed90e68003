"""The engines of the soak: `python -m bench.soak.engines`, several in one process, each on a port of its own.

It says its ports and then does what it reads, line by line, answering each with a line of JSON:

    storm    engines fall ill from now on, one after the other, each for a few requests or seconds
    calm     all of them are well again
    ledger   what was executed
"""

import argparse
import asyncio
import json
import random
import sys
from dataclasses import replace

import uvloop

from bench.soak.accounts import Execution, rows
from bench.soak.ledger import LedgerFaults, LedgerMachine
from bench.soak.requests import ENGINE
from smg.sim.engine import SimEngine
from smg.sim.faults import Fault, FaultKind
from smg.sim.options import SimOptions

_CHAT = "/v1/chat/completions"
_HEALTH = "/health"
# An engine falls ill about so often, and stays away so long when it crashed.
_WELL_SECS = 2.5
_AWAY_SECS = (0.2, 3.0)
_CRASH = "crash"


def _fault(
    kind: FaultKind, count: int, *, path: str = _CHAT, status: int = 500, ms: float = 0, after: int = 0
) -> Fault:
    return Fault(path, kind, status=status, ms=ms, after_events=after, count=count)


# What can befall an engine, and how often next to the rest.
_ILLS: tuple[tuple[int, Fault | str], ...] = (
    (4, _CRASH),
    (2, _fault("hang", 2)),
    (2, _fault("reset", 3)),
    (2, _fault("reset", 2, after=5)),
    (2, _fault("error", 3)),
    (1, _fault("error", 3, status=503)),
    (1, _fault("error", 2, status=429)),
    (2, _fault("truncate", 2, after=4)),
    (1, _fault("garbage", 1, after=2)),
    (2, _fault("slow_body", 3, ms=25)),
    (2, _fault("latency", 4, ms=400)),
    (1, _fault("hang", 2, path=_HEALTH)),
    (2, _fault("error", 4, path=_HEALTH, status=503)),
)


class Patient(SimEngine):
    """An engine whose executions are entered in a ledger."""

    def __init__(self, options: SimOptions, ledger: list[Execution]) -> None:
        super().__init__(options)
        self.machine: LedgerMachine = LedgerMachine(options, ledger)
        self.faults = LedgerFaults((), random.Random(options.port).random)


class Ward:
    """The engines of this process, and what befalls them."""

    def __init__(self, ledger: list[Execution], seed: int) -> None:
        self._ledger = ledger
        self._chance = random.Random(seed)
        self._engines: dict[int, Patient] = {}
        self._storm: list[asyncio.Task[None]] = []

    async def open(self, count: int) -> list[int]:
        for _ in range(count):
            await self._start(0)
        return [*self._engines]

    def storm(self) -> None:
        self._storm = [asyncio.create_task(self._suffer(port)) for port in self._engines]

    async def calm(self) -> None:
        """All engines well, and there."""
        for task in self._storm:
            task.cancel()
        await asyncio.gather(*self._storm, return_exceptions=True)
        for port in [*self._engines]:
            await self._crash(port)
            await self._start(port)

    async def _suffer(self, port: int) -> None:
        """The life of one engine: well for a while, then ill."""
        chance = self._chance
        weights = [weight for weight, _ in _ILLS]
        while True:
            await asyncio.sleep(chance.expovariate(1 / _WELL_SECS))
            [(_, ill)] = chance.choices(_ILLS, weights)
            if isinstance(ill, Fault):
                self._engines[port].faults.add(ill)
                continue
            await self._crash(port)
            await asyncio.sleep(chance.uniform(*_AWAY_SECS))
            await self._start(port)

    async def _crash(self, port: int) -> None:
        self._engines[port].machine.crashes()
        await self._engines[port].stop()

    async def _start(self, port: int) -> None:
        engine = Patient(replace(ENGINE, port=port), self._ledger)
        await engine.start()
        self._engines[engine.port] = engine


async def serve(count: int, seed: int) -> None:
    ledger = list[Execution]()
    ward = Ward(ledger, seed)
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    print(json.dumps(await ward.open(count)), flush=True)
    while order := (await orders.readline()).decode().strip():
        match order:
            case "storm":
                ward.storm()
            case "calm":
                await ward.calm()
        print(json.dumps(rows(ledger) if order == "ledger" else order), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.soak.engines")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    uvloop.run(serve(args.count, args.seed))


if __name__ == "__main__":
    main()
