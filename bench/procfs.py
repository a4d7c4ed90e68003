"""What the kernel knows about a process: processor time, resident memory, sockets and threads."""

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

_PROC = Path("/proc")
_CPUCLOCK_SCHED = 2  # linux/posix-timers.h: the scheduler's clock of a whole process
_RESET_PEAK = "5"  # proc(5), clear_refs


def process_tree(pid: int) -> list[int]:
    """`pid` and every living descendant: a gateway that forks is charged for its children too."""
    return list(_walk(pid))


def _walk(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(OSError):
        for children in (_PROC / str(pid) / "task").glob("*/children"):
            for child in children.read_text().split():
                yield from _walk(int(child))


def cpu_secs(pids: Sequence[int]) -> float:
    """User and system time of all threads, those already gone included.

    The kernel's process clock counts what utime + stime of /proc/PID/stat count, in nanoseconds instead of
    ticks of 10 ms, so that short runs are exact too.
    """
    return sum(time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED) for pid in pids)


def core_busy_secs(cores: Iterable[int]) -> float:
    """What everybody together has spent on these cores, and what the host took from them, in ticks of 10 ms."""
    names = {f"cpu{core}" for core in cores}
    busy_ticks = 0
    for line in (_PROC / "stat").read_text().splitlines():
        name, *ticks = line.split()
        if name in names:
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, ticks[:8])
            busy_ticks += user + nice + system + irq + softirq + steal
    return busy_ticks / os.sysconf("SC_CLK_TCK")


def rss_kb(pids: Sequence[int]) -> int:
    """Resident memory, shared pages counted in full."""
    return sum(_field_kb(_PROC / str(pid) / "status", "VmRSS:") for pid in pids)


def peak_rss_kb(pids: Sequence[int]) -> int:
    """The most resident memory of each process since `forget_peak_rss`, as the kernel kept it: no sample is missed."""
    return sum(_field_kb(_PROC / str(pid) / "status", "VmHWM:") for pid in pids)


def forget_peak_rss(pids: Sequence[int]) -> None:
    """Let the peaks begin again at what is resident now."""
    for pid in pids:
        (_PROC / str(pid) / "clear_refs").write_text(_RESET_PEAK)


def pss_kb(pids: Sequence[int]) -> int:
    """Resident memory, each shared page divided by the number of processes that map it."""
    return sum(_field_kb(_PROC / str(pid) / "smaps_rollup", "Pss:") for pid in pids)


def sockets(pid: int) -> int:
    """How many sockets a process has open."""
    count = 0
    for descriptor in (_PROC / str(pid) / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since the list was made
            count += str(descriptor.readlink()).startswith("socket:")
    return count


def threads(pid: int) -> int:
    return len(list((_PROC / str(pid) / "task").iterdir()))


def _field_kb(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise ValueError(f"{path} has no {name}")
