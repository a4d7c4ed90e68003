"""Where a run takes place: the cores, the directory, the fake engines, and the ways to start each player."""

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
class Fleet:
    """What stands behind the gateway: a module of this suite, and the flags it is started with."""

    module: str
    flags: dict[str, float] = field(default_factory=dict)


def fake_workers(
    *, count: int = 2, chunks: int = 200, interval_ms: float = 10.0, control_ms: float = 0.0, anonymous: int = 0
) -> Fleet:
    """Workers that answer with ready-made bytes: streams of `chunks` events, one every `interval_ms`; control calls
    after `control_ms`. If they are `anonymous`, they say nothing of themselves, and so serve every model.
    """
    flags = {"count": count, "chunks": chunks, "interval_ms": interval_ms, "control_ms": control_ms}
    flags["anonymous"] = anonymous
    return Fleet("bench.workers", flags)


def lean_engines(count: int, control_ms: float = 0.0) -> Fleet:
    """Workers that cost next to nothing. They answer plain chats at once, and control calls after so long."""
    return Fleet("bench.lean_engines", {"count": count, "control_ms": control_ms})


def sim_engines(count: int, **flags: float) -> Fleet:
    """Simulated engines, with their flags; they queue, take time and keep a prefix cache."""
    return Fleet("bench.engines", {"count": count, **flags})


@dataclass(frozen=True, slots=True)
class Workers:
    """A running fleet: one process, one port a worker."""

    pid: int
    ports: list[int]

    def open_streams(self) -> int:
        """How many streamed answers the fake workers are still sending."""
        return int(self.get(self.ports[0], "/bench/open_streams"))

    def get(self, port: int, path: str) -> Any:
        """The JSON that one of them answers."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", path)
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer


@dataclass(frozen=True, slots=True)
class Stage:
    settings: Settings
    children: Children

    @contextmanager
    def workers(self, fleet: Fleet) -> Iterator[Workers]:
        """A live fleet on the load side's core."""
        child = self.start_module(fleet.module, core=self.settings.load_core, **fleet.flags)
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

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Both cores stay awake meanwhile."""
        settings = self.settings
        wakeful = [
            self.start_module("bench.wakeful", core=core) for core in (settings.gateway_core, settings.load_core)
        ]
        try:
            yield
        finally:
            for child in wakeful:
                self.children.kill(child)

    def start_load(
        self, module: str, *words: str, gateway: Gateway, workers: Workers, **options: float | str
    ) -> subprocess.Popen[str]:
        """Start a load generator; `options` become its flags."""
        players: dict[str, int] = {"port": gateway.port, "gateway_pid": gateway.pid, "workers_pid": workers.pid}
        return self.start_module(module, *words, core=self.settings.load_core, **players, **options)

    def run_load(
        self, module: str, *words: str, gateway: Gateway, workers: Workers, seconds: float, **options: float | str
    ) -> dict[str, float]:
        """Run a load generator to its end and return its figures."""
        child = self.start_load(module, *words, gateway=gateway, workers=workers, seconds=seconds, **options)
        return self.children.finish(child, seconds + GRACE_SECS)

    def start_module(self, module: str, *words: str, core: int, **options: float | str) -> subprocess.Popen[str]:
        """Start a module of this suite on a core; `options` become its flags. It may import this checkout's code."""
        flags = [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", str(value))]
        root = self.settings.root
        return self.children.start_piped(
            [sys.executable, "-m", module, *words, *flags],
            core=core,
            env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"},
            cwd=self.settings.state_dir,
        )
