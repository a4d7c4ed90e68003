"""Where a run takes place: the cores, the directory, the fake engines, and the ways to start each player."""

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.gateways import Gateway, Side, launch
from bench.processes import Children, read_json_line

# A load generator that has not ended so long after its time is stuck.
GRACE_SECS = 60.0


@dataclass(frozen=True, slots=True)
class Settings:
    root: Path  # of the repository
    state_dir: Path  # logs, results, the published gateway's environment
    seconds: float  # the measured part of a timed run
    pairs: int
    gateway_core: int
    load_core: int


@dataclass(frozen=True, slots=True)
class Workers:
    pid: int
    ports: list[int]

    def open_streams(self) -> int:
        """How many streamed answers the fake engines are still sending."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[0], timeout=5)
        connection.request("GET", "/bench/open_streams")
        count = int(json.loads(connection.getresponse().read()))
        connection.close()
        return count


@dataclass(frozen=True, slots=True)
class Stage:
    settings: Settings
    children: Children

    @contextmanager
    def workers(self, *, chunks: int, interval_ms: float) -> Iterator[Workers]:
        """Two live workers (one process with two ports) on the load side's core."""
        child = self._start_module("bench.workers", chunks=chunks, interval_ms=interval_ms)
        try:
            yield Workers(child.pid, read_json_line(child))
        finally:
            self.children.kill(child)

    @contextmanager
    def gateway(self, side: Side, workers: Workers, flags: tuple[str, ...]) -> Iterator[Gateway]:
        """A fresh, ready gateway on a core of its own; gone, with its log, at the end."""
        settings = self.settings
        gateway = launch(
            side,
            self.children,
            core=settings.gateway_core,
            worker_ports=workers.ports,
            flags=flags,
            cwd=settings.state_dir,
        )
        try:
            yield gateway
        finally:
            self.children.kill(gateway.process)
        gateway.log.unlink()  # after a failure it stays, to be read

    def start_load(
        self, module: str, *words: str, gateway: Gateway, workers: Workers, **options: float
    ) -> subprocess.Popen[str]:
        """Start a load generator; `options` become its flags."""
        return self._start_module(
            module, *words, port=gateway.port, gateway_pid=gateway.pid, workers_pid=workers.pid, **options
        )

    def run_load(
        self, module: str, *words: str, gateway: Gateway, workers: Workers, seconds: float, **options: float
    ) -> dict[str, float]:
        """Run a load generator to its end and return its figures."""
        child = self.start_load(module, *words, gateway=gateway, workers=workers, seconds=seconds, **options)
        return self.children.finish(child, seconds + GRACE_SECS)

    def _start_module(self, module: str, *words: str, **options: float) -> subprocess.Popen[str]:
        flags = [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", str(value))]
        return self.children.start_piped(
            [sys.executable, "-m", module, *words, *flags],
            core=self.settings.load_core,
            env={**os.environ, "PYTHONPATH": str(self.settings.root)},
            cwd=self.settings.state_dir,
        )
