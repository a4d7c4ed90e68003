"""The measured part of a run: what gateway, fake engines and load generator spent between two moments."""

import os
import time
from dataclasses import dataclass, field

from bench import procfs


@dataclass(slots=True)
class Window:
    """Opened when the warm-up is over. It lives in the load generator, which knows when that is."""

    gateway_pid: int
    workers_pid: int
    _gateway: list[int] = field(init=False)
    _started_at: float = field(init=False)
    _before: tuple[float, float, float, float] = field(init=False)

    def open(self) -> None:
        self._gateway = procfs.process_tree(self.gateway_pid)
        self._before = self._spent()
        self._started_at = time.perf_counter()

    def close(self) -> dict[str, float]:
        """Wall seconds, processor seconds of the gateway, and how busy each side was (1.0: a whole core).

        `others_busy` is what processes other than the gateway took of its core.
        """
        wall = time.perf_counter() - self._started_at
        gateway, workers, load, core = (
            after - before for after, before in zip(self._spent(), self._before, strict=True)
        )
        return {
            "wall_secs": wall,
            "gateway_cpu_secs": gateway,
            "gateway_busy": gateway / wall,
            "load_side_busy": (workers + load) / wall,
            "others_busy": max(0.0, core - gateway) / wall,
        }

    def _spent(self) -> tuple[float, float, float, float]:
        return (
            procfs.cpu_secs(self._gateway),
            procfs.cpu_secs([self.workers_pid]),
            time.process_time(),
            procfs.core_busy_secs(os.sched_getaffinity(self.gateway_pid)),
        )
