"""The facts of the machine that a reader needs next to the figures, without names or paths of it."""

import os
import platform
from importlib.metadata import version
from pathlib import Path


def facts() -> dict[str, str]:
    return {
        "CPU": f"{_cpu_model()}, {os.cpu_count()} cores",
        "Memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "System": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}, {platform.machine()}",
        "Python": f"{platform.python_version()}, uvloop {version('uvloop')}",
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
