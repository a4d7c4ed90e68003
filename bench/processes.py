"""Child processes: pinned to a core, in groups of their own, and gone when the harness is gone."""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class ChildFailedError(RuntimeError):
    """A child ended with an error or did not answer in time; the message carries the end of its output."""


class Children:
    """Everything the harness has started. Leaving the block kills what still runs."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in tuple(self._running):
            self.kill(child)

    def start(
        self, argv: Sequence[str], *, core: int, env: Mapping[str, str], cwd: Path, output: Path
    ) -> subprocess.Popen[str]:
        """Start a child whose standard output and error go to a file, as a service's do."""
        with output.open("w") as file:
            return self._start(argv, core, env=env, cwd=cwd, stdout=file, stderr=subprocess.STDOUT)

    def start_piped(
        self, argv: Sequence[str], *, core: int, env: Mapping[str, str], cwd: Path
    ) -> subprocess.Popen[str]:
        """Start a child that talks with the harness over its standard input and output."""
        return self._start(
            argv,
            core,
            env=env,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def _start(self, argv: Sequence[str], core: int, **options: Any) -> subprocess.Popen[str]:
        def pin() -> None:
            os.sched_setaffinity(0, {core})
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # covers a harness that is itself killed

        # The harness has one thread, so code between fork and exec is safe.
        child = subprocess.Popen(list(argv), text=True, preexec_fn=pin, start_new_session=True, **options)  # noqa: PLW1509
        self._running.append(child)
        return child

    def kill(self, child: subprocess.Popen[str]) -> None:
        """End a child and its group at once: the measuring is over, and a graceful drain only takes time."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait(timeout=10)
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
        self._running.remove(child)

    def finish(self, child: subprocess.Popen[str], timeout_secs: float) -> dict[str, float]:
        """Wait for a piped child and return the figures it printed."""
        figures: dict[str, float] = self.output(child, timeout_secs)
        return figures

    def output(self, child: subprocess.Popen[str], timeout_secs: float) -> Any:
        """Wait for a piped child and return the JSON it printed."""
        try:
            out, err = child.communicate(timeout=timeout_secs)
        except subprocess.TimeoutExpired:
            raise ChildFailedError(f"{child.args!r} did not end within {timeout_secs:.0f} s") from None
        finally:
            self.kill(child)
        if child.returncode:
            raise ChildFailedError(err.strip()[-2000:] or f"exit status {child.returncode}")
        return json.loads(out)


def read_json_line(child: subprocess.Popen[str]) -> Any:
    """The next line a piped child prints; raises `ChildFailedError` when it ended instead."""
    assert child.stdout is not None
    assert child.stderr is not None
    line = child.stdout.readline()
    if not line:
        raise ChildFailedError(child.stderr.read().strip()[-2000:])
    return json.loads(line)
