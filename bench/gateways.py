"""The two sides of the race: how each gateway is started, and when it counts as ready."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

from bench import procfs, published
from bench.processes import ChildFailedError, Children

_READY_SECS = 60.0
_POLL_SECS = 0.005
_HOST = "127.0.0.1"
_LAST_WORDS_BYTES = 400
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Side:
    name: str  # "ours" or "published"
    version: str
    command: tuple[str, ...]  # what stands before `launch`
    env: dict[str, str]


def our_side(root: Path, command: str | None) -> Side:
    """This checkout, or the given command line (which brings its own import path)."""
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    if command is None:
        environment = _environment() | {"PYTHONPATH": str(root / "src")}
        return Side("ours", version, (sys.executable, "-m", "smg"), environment)
    program, *arguments = shlex.split(command)
    found = shutil.which(program) or program
    return Side("ours", version, (str(Path(found).absolute()), *arguments), _environment())


def published_side(venv: Path) -> Side:
    return Side("published", published.VERSION, (str(published.command(venv)),), _environment())


def _environment() -> dict[str, str]:
    """The same few variables on both sides: no proxies, no import paths, no settings of either gateway."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}


@dataclass(slots=True)
class Gateway:
    """A running gateway that has found its workers."""

    process: subprocess.Popen[str]
    port: int
    metrics_port: int
    log: Path
    ready_secs: float = 0.0  # from the start of its process to the first ready answer
    all_ready_secs: float = 0.0  # and to the one that counts every worker

    @property
    def pid(self) -> int:
        return self.process.pid

    def rss_kb(self) -> int:
        return procfs.rss_kb(procfs.process_tree(self.pid))

    def pss_kb(self) -> int:
        return procfs.pss_kb(procfs.process_tree(self.pid))

    def last_words(self) -> str:
        """The end of its log's last line; the log itself stays where it is after a failure."""
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - _LAST_WORDS_BYTES))
            text = _COLOURS.sub("", file.read().decode(errors="replace")).strip()
        return f"{text.splitlines()[-1] if text else ''} (more in {self.log.name})"


def launch(
    side: Side, children: Children, *, core: int, worker_ports: list[int], flags: tuple[str, ...], cwd: Path
) -> Gateway:
    """Start a gateway and wait until it is ready with all its workers.

    Raises:
        ChildFailedError: with the end of its log, when it ends or is not ready in time.
    """
    port, metrics_port = _free_ports(2)
    urls = [f"http://{_HOST}:{worker}" for worker in worker_ports]
    argv = [*side.command, "launch", "--host", _HOST, "--port", str(port), "--worker-urls", *urls]
    # Both listen for metrics by default; here each on a port of its own, and on this machine only.
    argv += ["--prometheus-host", _HOST, "--prometheus-port", str(metrics_port), *flags]
    log = cwd / f"{side.name}.log"
    started_at = time.perf_counter()
    process = children.start(argv, core=core, env=side.env, cwd=cwd, output=log)
    gateway = Gateway(process, port, metrics_port, log)
    try:
        _await_workers(gateway, started_at, len(worker_ports))
    except ChildFailedError:
        children.kill(process)
        raise
    return gateway


def _await_workers(gateway: Gateway, started_at: float, worker_count: int) -> None:
    while time.perf_counter() - started_at < _READY_SECS:
        if gateway.process.poll() is not None:
            raise ChildFailedError(f"the gateway ended at its start: {gateway.last_words()}")
        healthy = _healthy_workers(gateway.port)
        elapsed = time.perf_counter() - started_at
        if healthy and not gateway.ready_secs:
            gateway.ready_secs = elapsed
        if healthy >= worker_count:
            gateway.all_ready_secs = elapsed
            return
        time.sleep(_POLL_SECS)
    raise ChildFailedError(f"the gateway was not ready within {_READY_SECS:.0f} s: {gateway.last_words()}")


def _healthy_workers(port: int) -> int:
    """The number in a ready answer of GET /readiness; 0 while there is none."""
    try:
        with socket.create_connection((_HOST, port), timeout=2) as connection:
            connection.sendall(f"GET /readiness HTTP/1.1\r\nHost: {_HOST}:{port}\r\nConnection: close\r\n\r\n".encode())
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    except OSError:
        return 0
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n", 1)[0]:
        return 0
    return int(json.loads(body)["healthy_workers"])


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, taken together so that they differ."""
    sockets = [socket.create_server((_HOST, 0)) for _ in range(count)]
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports
