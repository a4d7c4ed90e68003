"""How a command of this suite begins: cores, open files, a place for logs, and an end that leaves nothing running."""

import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from bench.stage import Settings

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
STATE_DIR = ROOT / ".bench"
# 1,000 streams cost a gateway 2,000 descriptors; the common default is 1,024.
_OPEN_FILES = 16_384


def prepare(state_dir: Path, *, seconds: float, pairs: int = 1) -> Settings:
    """Give the gateway a core of its own, and this process and the load side the other."""
    signal.signal(signal.SIGTERM, _stop)
    _raise_open_files()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        sys.exit("this needs two cores: one for the gateway, one for the load side")
    os.sched_setaffinity(0, {cores[1]})  # the harness must not disturb the gateway's core either
    state_dir = state_dir.absolute()
    state_dir.mkdir(parents=True, exist_ok=True)
    (state_dir / ".gitignore").write_text("*\n")
    return Settings(ROOT, state_dir, seconds, pairs, gateway_core=cores[0], load_core=cores[1])


def run(main: Callable[[], int]) -> NoReturn:
    """Run a command to its exit status."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)


def _raise_open_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _stop(_signal: int, _frame: object) -> NoReturn:
    raise SystemExit(143)  # unwinds through `Children`, as Ctrl-C does
