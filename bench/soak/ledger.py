"""What the engines of one process executed, request by request.

An execution begins when an engine takes up a request and ends with its last token, or when it is aborted. Whether the
answer could reach the gateway as it was is known here too: not if a fault shaped it on its way, nor if its engine
crashed before it can have left.
"""

import time
from contextvars import ContextVar
from typing import Any

from bench.soak.accounts import CUT, DELIVERED, HURT, RUNS, Execution
from smg.sim.faults import Fault, FaultTable
from smg.sim.machine import Machine
from smg.sim.options import SimOptions
from smg.sim.output import Sampling
from smg.sim.prompt import Prompt
from smg.sim.scheduler import Progress, Sequence

# A crash takes along what the kernel has not handed over yet.
_HANDING_OVER_SECS = 0.25

_fault: ContextVar[Fault | None] = ContextVar("fault", default=None)


class LedgerFaults(FaultTable):
    """A fault table that lets the execution know which fault its request was given."""

    def __bool__(self) -> bool:
        return True  # asked about every request, so that every request has its own answer

    def take(self, path: str) -> Fault | None:
        fault = super().take(path)
        _fault.set(fault)
        return fault


class LedgerMachine(Machine):
    """An engine's machine that enters what it executes."""

    def __init__(self, options: SimOptions, ledger: list[Execution]) -> None:
        super().__init__(options)
        self._ledger = ledger
        self._mine: list[Execution] = []

    def sequence(self, rid: str, prompt: Prompt, sampling: Sampling, on_progress: Progress, **rest: Any) -> Sequence:
        if rest.get("choice", 0):
            return super().sequence(rid, prompt, sampling, on_progress, **rest)
        entry = Execution(rid.partition("_")[0], time.monotonic())
        self._ledger.append(entry)
        self._mine.append(entry)
        fault = _fault.get()
        hurt = fault is not None and fault.shapes_answer

        def progress(sequence: Sequence) -> None:
            on_progress(sequence)
            if sequence.ended and entry.fate == RUNS:
                entry.ended_at = time.monotonic()
                entry.fate = CUT if sequence.ended == "abort" else HURT if hurt else DELIVERED

        return super().sequence(rid, prompt, sampling, progress, **rest)

    def crashes(self) -> None:
        """The engine is about to lose its connections."""
        latest = time.monotonic() - _HANDING_OVER_SECS
        for entry in self._mine:
            if entry.fate == DELIVERED and entry.ended_at > latest:
                entry.fate = CUT
