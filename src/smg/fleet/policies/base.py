"""The contract of a routing policy, and what every policy is given.

One instance serves one model (`policy_book.py`). Policies are synchronous and deterministic under a given random
source and clock; they read workers and never change them. Which workers are candidates is decided before, counting a
request as load comes after (`selection.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Protocol

from smg.fleet.hints import Hints
from smg.fleet.worker import Worker


def _ignore(_: object, /) -> None:
    """Stand in for a listener nobody asked for."""


def _ignore_sample(_: str, __: float, /) -> None:
    """Stand in for a listener nobody asked for."""


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """What a policy is given besides its options.

    `rng` breaks ties and draws at random; `now` is a monotonic clock in seconds. `count(branch)` counts which
    way a selection was made, `observe(name, value)` takes a sample, `warn(message)` tells the operator
    something once.
    """

    rng: Random
    now: Callable[[], float]
    count: Callable[[str], None] = _ignore
    observe: Callable[[str, float], None] = _ignore_sample
    warn: Callable[[str], None] = _ignore


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The options of a policy that has nothing to set."""


class Policy(Protocol):
    """A way to choose among workers.

    `name` is what the command line and labels say; `reads_text` tells that the prompt's text or tokens are
    needed, so that a body must be read before placement; `reads_keys` tells that routing keys are, and what else the
    headers say of the caller; `options` is the frozen dataclass the constructor takes, its fields named like the
    settings and defaulting to the flags' defaults; `label_options` are those of a model whose label asks for this
    policy where the command line asks for another, None standing for the defaults.
    """

    name: ClassVar[str]
    options: ClassVar[type] = NoOptions
    label_options: ClassVar[object] = None
    reads_text: ClassVar[bool] = False
    reads_keys: ClassVar[bool] = False

    def __init__(self, ctx: PolicyContext, options: Any = None) -> None: ...

    def select(self, workers: Sequence[Worker], hints: Hints) -> Worker | None:
        """Choose one of `workers`: available candidates in registration order, never empty.

        None means that this policy selects none of them.
        """
        ...

    def forget(self, url: str) -> None:
        """Purge what is kept of a removed worker, at once."""

    def sweep(self, now: float) -> None:
        """Do periodic upkeep; called every eviction interval."""

    def sizes(self) -> Mapping[str, int]:
        """How much is remembered, by name, for gauges."""
        return {}


def uniform(workers: Sequence[Worker], rng: Random) -> Worker:
    """One of the workers, each with the same chance."""
    return workers[int(rng.random() * len(workers))]
