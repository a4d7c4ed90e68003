"""`smg serve`: engines and the gateway in front of them, started and ended together.

So far the engines are simulated ones. Each replica is a process of its own, as real engines are: one may crash or be
killed while the others and the gateway go on. The gateway is a process too, run by the same command line as
`smg launch`. This process only watches: it starts the engines, waits until they answer, starts the gateway, passes
signals on, and leaves nothing behind.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from types import FrameType
from urllib.parse import urlsplit

from smg.sim.cli import add_engine_arguments, arguments_for, engine_values
from smg.sim.options import SimOptions

BACKENDS = ("sglang", "vllm", "trtllm", "tokenspeed", "sim")
ROUTER_PREFIX = "--router-"
# A single worker leaves nothing to choose, to try again elsewhere, or to keep out of rotation.
SINGLE_WORKER_FLAGS = ("--policy", "passthrough", "--disable-retries", "--disable-circuit-breaker")

_REFUSED = 2
_STOP_SECS = 30.0
_POLL_SECS = 0.1
_PROBE_TIMEOUT_SECS = 1.0
_GATEWAY = "import sys; from smg.app.cli import main; sys.exit(main(sys.argv[1:]))"


def main(argv: Sequence[str]) -> int:
    """Run `smg serve`; returns the exit status: the gateway's own, or 128 plus the signal that ended it."""
    parser = _parser()
    arguments, rest = parser.parse_known_args(argv)
    if arguments.backend != "sim":
        return _refuse(f"--backend {arguments.backend} is not available yet; --backend sim is")
    if arguments.connection_mode != "http":
        return _refuse(f"--backend sim --connection-mode {arguments.connection_mode} is not available yet; http is")
    try:
        engines = engine_options(arguments)
        router = router_flags(rest, fallback=not arguments.router_disable_arg_fallback)
    except ValueError as error:
        return _refuse(str(error))
    return _Serving(engines, gateway_arguments(arguments, engines, router), arguments.worker_startup_timeout).run()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="smg serve",
        description="Start simulated engines and a gateway in front of them.",
        epilog="The gateway's own flags (see smg launch --help) are given as --router-FLAG; --FLAG alone does where no"
        " flag above has that name.",
        allow_abbrev=False,
    )
    parser.add_argument("--backend", choices=BACKENDS, default=os.environ.get("SMG_DEFAULT_BACKEND", "sglang"))
    parser.add_argument("--connection-mode", choices=("http", "grpc", "zmq"), default="http")
    parser.add_argument("--model-path", "--model", dest="model", default=SimOptions().model)
    parser.add_argument("--data-parallel-size", "--dp-size", dest="replicas", type=int, default=1, metavar="N")
    parser.add_argument("--host", default="127.0.0.1", help="where the gateway listens")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--worker-host", default="127.0.0.1", help="where the engines listen")
    parser.add_argument("--worker-base-port", type=int, default=31000, help="the first engine's port; others follow")
    parser.add_argument("--worker-startup-timeout", type=float, default=300.0, metavar="SECS")
    parser.add_argument("--api-key", default="", help="asked for by the gateway and by the engines")
    parser.add_argument("--router-disable-arg-fallback", action="store_true", help="take only --router-FLAG flags")
    add_engine_arguments(parser)
    return parser


def engine_options(arguments: argparse.Namespace) -> list[SimOptions]:
    """One set of options a replica. Raises ValueError."""
    if arguments.replicas < 1:
        raise ValueError("--data-parallel-size must be at least 1")
    first = SimOptions(
        **engine_values(arguments),
        model=arguments.model,
        host=arguments.worker_host,
        port=arguments.worker_base_port,
        api_key=arguments.api_key,
    )
    return [replace(first, port=first.port + number) for number in range(arguments.replicas)]


def router_flags(rest: Iterable[str], *, fallback: bool) -> list[str]:
    """The gateway's flags among the arguments that are not ours.

    `--router-x` becomes `--x`. Without `fallback` a flag without the prefix raises ValueError.
    """
    flags = []
    for token in rest:
        if token.startswith(ROUTER_PREFIX):
            flags.append("--" + token.removeprefix(ROUTER_PREFIX))
        elif token.startswith("--") and not fallback:
            raise ValueError(f"unknown flag {token.partition('=')[0]}; flags of the gateway begin with {ROUTER_PREFIX}")
        else:
            flags.append(token)
    return flags


def gateway_arguments(arguments: argparse.Namespace, engines: list[SimOptions], router: list[str]) -> list[str]:
    """The gateway's command line. What is said last counts, so its own flags may overrule the common ones."""
    flags = ["launch", "--host", arguments.host, "--port", str(arguments.port)]
    if arguments.api_key:
        flags += ["--api-key", arguments.api_key]
    flags += ["--worker-urls", *[worker_url(engine) for engine in engines], *router]
    return flags if len(engines) > 1 else [*flags, *SINGLE_WORKER_FLAGS]


def worker_url(engine: SimOptions) -> str:
    """Where the gateway finds an engine."""
    return f"http://{engine.host}:{engine.port}"


class _Serving:
    """The processes of one `smg serve`."""

    def __init__(self, engines: list[SimOptions], gateway: list[str], startup_timeout_secs: float) -> None:
        self._options = engines
        self._gateway_arguments = gateway
        self._startup_timeout_secs = startup_timeout_secs
        self._engines: list[subprocess.Popen[bytes]] = []
        self._gateway: subprocess.Popen[bytes] | None = None
        self._lost: set[int] = set()
        self._signal = 0

    def run(self) -> int:
        """From the first engine's start to the last process's end."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note_signal)
        try:
            for options in self._options:
                self._engines.append(_spawn(["-m", "smg.sim.cli", *arguments_for(options)]))
            if not self._started():
                return 128 + self._signal if self._signal else 1
            self._gateway = _spawn(["-c", _GATEWAY, *self._gateway_arguments])
            urls = ", ".join([worker_url(options) for options in self._options])
            sys.stdout.write(f"smg serve: a gateway is starting in front of {urls}\n")
            sys.stdout.flush()
            return self._watch(self._gateway)
        finally:
            if self._gateway is not None:
                _stop([self._gateway], self._signal or signal.SIGTERM)
            _stop(self._engines, signal.SIGTERM)

    def _note_signal(self, number: int, _: FrameType | None) -> None:
        if self._signal and self._gateway is not None:
            self._gateway.kill()  # asked twice: no more patience
        self._signal = number

    def _started(self) -> bool:
        """Wait until every engine answers."""
        deadline = time.monotonic() + self._startup_timeout_secs
        waiting = list(zip(self._options, self._engines, strict=True))
        while waiting:
            if self._signal:
                return False
            for options, process in waiting:
                if process.poll() is not None:
                    return _complain(f"the engine at {worker_url(options)} ended with status {process.returncode}")
            waiting = [pair for pair in waiting if not _answers(worker_url(pair[0]))]
            if waiting and time.monotonic() > deadline:
                return _complain(f"the engine at {worker_url(waiting[0][0])} did not answer in time")
            if waiting:
                time.sleep(_POLL_SECS)
        return True

    def _watch(self, gateway: subprocess.Popen[bytes]) -> int:
        """Until the gateway ends, a signal comes, or no engine is left."""
        while not self._signal:
            if gateway.poll() is not None:
                return gateway.returncode
            for options, process in zip(self._options, self._engines, strict=True):
                if process.poll() is not None and process.pid not in self._lost:
                    self._lost.add(process.pid)
                    _complain(f"the engine at {worker_url(options)} ended with status {process.returncode}")
            if len(self._lost) == len(self._engines):
                return 1
            time.sleep(_POLL_SECS)
        return 128 + self._signal


def _spawn(arguments: list[str]) -> subprocess.Popen[bytes]:
    # In a group of its own, so that an interrupt from the terminal reaches it through us alone, and in order.
    return subprocess.Popen([sys.executable, *arguments], process_group=0)  # noqa: S603  our own interpreter and modules


def _stop(processes: list[subprocess.Popen[bytes]], number: int) -> None:
    """Signal processes, wait for them, and kill what is left after a while."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(number)
    deadline = time.monotonic() + _STOP_SECS
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    """Whether an engine says that it is well."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=_PROBE_TIMEOUT_SECS)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200  # noqa: PLR2004  HTTP's own number
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _complain(message: str) -> bool:
    sys.stderr.write(f"smg serve: {message}\n")
    return False


def _refuse(message: str) -> int:
    _complain(message)
    return _REFUSED
