from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest

from smg.fleet.policies.base import PolicyContext
from smg.fleet.worker import Worker


class ClosedBreaker:
    def admits(self, now):
        return True


@dataclass
class Bench:
    """A clock to set, and what a policy told its listeners."""

    now: float = 0.0
    branches: Counter = field(default_factory=Counter)
    samples: list = field(default_factory=list)
    warnings: list = field(default_factory=list)

    def context(self, seed=1):
        return PolicyContext(
            Random(seed),
            lambda: self.now,
            lambda branch: self.branches.update([branch]),
            lambda name, value: self.samples.append((name, value)),
            self.warnings.append,
        )


@pytest.fixture
def bench():
    return Bench()


@pytest.fixture
def fleet():
    """A maker of workers with the given requests in flight, as the tuple that selection hands out."""

    def make(*loads):
        return tuple(
            Worker(str(n), f"http://worker-{n}:8000", f"http://worker-{n}:8000", ClosedBreaker(), load=load)
            for n, load in enumerate(loads)
        )

    return make
