"""Our commands as processes of their own, started as a user starts them and gone after the test."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import smg
from support.plain_http import get
from support.ports import free_ports
from support.waiting import PROCESS_WAIT_SECS, eventually

_SOURCES = str(Path(smg.__file__).parents[1])


def environment(**extra):
    """What a process inherits: nothing that would configure a gateway by accident."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SMG_") and name != "RUST_LOG"}
    paths = [_SOURCES, *filter(None, [kept.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), **extra}


class Process:
    """A running `smg`. What it writes goes to files, so that it never waits for a reader."""

    def __init__(self, popen, stdout, stderr):
        self._popen = popen
        self._stdout = stdout
        self._stderr = stderr

    @property
    def stdout(self):
        return _written(self._stdout)

    @property
    def stderr(self):
        return _written(self._stderr)

    @property
    def running(self):
        return self._popen.poll() is None

    def signal(self, number):
        self._popen.send_signal(number)

    def wait(self):
        """The exit status, once there is one."""
        return self._popen.wait(PROCESS_WAIT_SECS)

    def check(self):
        """Fail with what the process said, if it has ended."""
        assert self.running, f"ended with {self._popen.returncode}: {self.stdout}{self.stderr}"


def _written(file):
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode()


@contextmanager
def process(*arguments, **variables):
    """`python -m smg ...` as a process."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        popen = subprocess.Popen(
            [sys.executable, "-m", "smg", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=environment(**variables),
        )
        try:
            yield Process(popen, stdout, stderr)
        finally:
            if popen.poll() is None:
                popen.terminate()
                try:
                    popen.wait(PROCESS_WAIT_SECS)
                finally:
                    popen.kill()
            popen.wait()


def run(*arguments, **variables):
    """Run `python -m smg ...` to its end: exit status, standard output, standard error."""
    with process(*arguments, **variables) as running:
        status = running.wait()
        return status, running.stdout, running.stderr


@contextmanager
def engine_process(*flags):
    """A simulated engine as a process; yields its URL."""
    with process("sim", *flags) as running:
        yield eventually(lambda: running.check() or running.stdout.strip(), "an engine's start").split()[-1]


class GatewayProcess:
    """A gateway as a process: `url` is its API's."""

    def __init__(self, running, port, metrics_port):
        self.process = running
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.metrics_url = f"http://127.0.0.1:{metrics_port}/metrics"

    def readiness(self):
        """The status and the body of the readiness probe; None for a body when nobody listens."""
        return get(f"{self.url}/readiness")

    def drain(self, number=signal.SIGTERM):
        """Send a signal and wait until the gateway says that it leaves."""
        self.process.signal(number)
        eventually(lambda: self.readiness().json.get("reason") == "draining", "draining")

    @property
    def written(self):
        """All it wrote."""
        return self.process.stdout + self.process.stderr


@contextmanager
def launched(*flags, workers=0, **variables):
    """`smg launch` with these flags, ready with so many workers."""
    port, metrics_port = free_ports(2)
    listening = ["--host", "127.0.0.1", "--port", port, "--prometheus-host", "127.0.0.1"]
    listening += ["--prometheus-port", metrics_port]
    hurry = ["--shutdown-grace-period-secs", "0.1"]  # a flag that is given again counts
    with process("launch", *listening, *hurry, *flags, **variables) as running:
        gateway = GatewayProcess(running, port, metrics_port)

        def is_up():
            running.check()
            return gateway.readiness().json.get("healthy_workers", 0) == workers

        eventually(is_up, "a gateway's start")
        yield gateway


@asynccontextmanager
async def launched_beside(*flags, **options):
    """The same for tests whose engines live on the test's own loop, which must not stand still meanwhile."""
    made = launched(*flags, **options)
    gateway = await asyncio.to_thread(made.__enter__)
    try:
        yield gateway
    finally:
        await asyncio.to_thread(made.__exit__, None, None, None)
