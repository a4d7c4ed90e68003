"""What load generators share that ask several gateways in turns: who they are, and what it costs them.

A machine that others use too is slow for some seconds and fast for some, and no two runs find it alike. So where runs
are short, the gateways are all there at once, on the same core, and are asked in turns of a few requests; who is not
asked sleeps. What happens to one then happens to the other.
"""

import argparse
import json
import sys
from collections.abc import Callable
from typing import NamedTuple

from bench import procfs


class Contestant(NamedTuple):
    """A gateway to be asked. As a word on the command line it is `name:port:pid`."""

    name: str
    port: int
    pid: int

    @classmethod
    def of(cls, word: str) -> "Contestant":
        name, port, pid = word.split(":")
        return cls(name, int(port), int(pid))

    def __str__(self) -> str:
        return f"{self.name}:{self.port}:{self.pid}"


class CostClock:
    """The processor time of a gateway, all its threads and children included, since this was made."""

    def __init__(self, contestant: Contestant) -> None:
        self._pids = procfs.process_tree(contestant.pid)
        self._before_secs = procfs.cpu_secs(self._pids)

    def secs(self) -> float:
        return procfs.cpu_secs(self._pids) - self._before_secs


def parser_of(name: str) -> argparse.ArgumentParser:
    """The command line of such a load generator."""
    parser = argparse.ArgumentParser(prog=name)
    parser.add_argument("gateways", type=Contestant.of, nargs="+", help="name:port:pid")
    return parser


def report(name: str, run: Callable[[], dict[str, dict[str, float]]]) -> None:
    """Print the figures of every gateway as one JSON line."""
    try:
        print(json.dumps(run()))
    except (RuntimeError, OSError) as error:
        sys.exit(f"{name}: {error}")
