"""The measured part of a run: what gateway, fake engines and load generator spent between two moments."""

import os
import time
from dataclasses import dataclass, field
from typing import NamedTuple

from bench import procfs


class _Clocks(NamedTuple):
    """Seconds: the wall's, then the processor's; a core's are what everybody spent on it."""

    wall: float
    gateway: float
    gateway_core: float
    load_side: float
    load_core: float


@dataclass(slots=True)
class Window:
    """Opened when the warm-up is over. It lives in the load generator, which knows when that is."""

    gateway_pid: int
    workers_pid: int
    _gateway: list[int] = field(init=False)
    _before: _Clocks = field(init=False)

    def open(self) -> None:
        self._gateway = procfs.process_tree(self.gateway_pid)
        self._before = self._read()

    def close(self) -> dict[str, float]:
        """Wall seconds, the gateway's processor seconds, and how busy sides and cores were (1.0: a whole core)."""
        spent = _Clocks(*(after - before for after, before in zip(self._read(), self._before, strict=True)))
        busy = {f"{name}_busy": secs / spent.wall for name, secs in spent._asdict().items() if name != "wall"}
        return {"wall_secs": spent.wall, "gateway_cpu_secs": spent.gateway, **busy}

    def _read(self) -> _Clocks:
        return _Clocks(
            time.perf_counter(),
            procfs.cpu_secs(self._gateway),
            procfs.core_busy_secs(os.sched_getaffinity(self.gateway_pid)),
            procfs.cpu_secs([self.workers_pid]) + time.process_time(),
            procfs.core_busy_secs(os.sched_getaffinity(self.workers_pid)),
        )
