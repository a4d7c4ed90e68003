"""How an engine is asked about itself, without doing the asking.

A plan is a generator: it yields the paths to GET next (all of them may be asked at once), is sent the
answers by path, and returns what it learned. Who runs it does the I/O, with the worker's key and a
deadline, and never retries or judges. A path that gave no answer is `NO_ANSWER`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

_GOOD = range(200, 300)


@dataclass(frozen=True, slots=True)
class Answer:
    """An engine's answer to one GET. `status` is 0 when there was none, `json` is None unless the body
    parsed; `body` is there for plans that read text.
    """

    status: int
    json: Any = None
    body: bytes = b""

    @property
    def ok(self) -> bool:
        """Whether the route exists and answered."""
        return self.status in _GOOD

    @property
    def members(self) -> Mapping[str, Any]:
        """The answer's JSON object; empty if it is no good answer or no object."""
        return self.json if self.ok and isinstance(self.json, dict) else {}


NO_ANSWER = Answer(0)

Answers = Mapping[str, Answer]
Plan = Generator[tuple[str, ...], Answers, T]
