"""Scripted faults: which requests go wrong, and how.

The table only decides; `fault_carrier` plays a fault on a connection. Every rule names a path (or `*` for all), a kind,
and may be limited to a number of times and to a probability.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

FaultKind = Literal["latency", "error", "hang", "reset", "truncate", "garbage", "slow_body"]
FAULT_KINDS: tuple[str, ...] = get_args(FaultKind)


@dataclass(frozen=True, slots=True)
class Fault:
    """One rule.

    - `latency` waits `ms` before the request is served
    - `error` answers `status` in the engine's own error format
    - `hang` never answers
    - `reset` cuts the connection: before any answer, or after `after_events` events of a stream
    - `truncate` ends the answer early as if it were whole: after `after_events` events, or halfway through a plain body
    - `garbage` sends what does not parse: in place of the event after `after_events`, or of the plain body
    - `slow_body` waits `ms` between the pieces of the answer

    `count` is how often the rule applies (0 = always), `probability` how likely each time.
    """

    path: str = "*"
    kind: FaultKind = "error"
    status: int = 500
    ms: float = 100.0
    after_events: int = 0
    count: int = 0
    probability: float = 1.0

    @property
    def shapes_answer(self) -> bool:
        """Whether the request is served and the fault lies in how its answer is carried."""
        return self.kind in ("truncate", "garbage", "slow_body") or (self.kind == "reset" and self.after_events > 0)


class FaultTable:
    """The rules in force, first match wins. `random` is asked only about rules with a probability below 1."""

    __slots__ = ("_random", "_rules", "applied")

    def __init__(self, faults: Iterable[Fault], random: Callable[[], float]) -> None:
        self._random = random
        self._rules: list[tuple[Fault, int]] = []
        self.applied = 0
        for fault in faults:
            self.add(fault)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def add(self, fault: Fault) -> None:
        self._rules.append((fault, fault.count))

    def clear(self) -> int:
        """Drop all rules; returns how many there were."""
        dropped = len(self._rules)
        self._rules.clear()
        return dropped

    def rows(self) -> list[dict[str, Any]]:
        """The rules as JSON objects; `left` is how often a counted rule still applies."""
        return [
            {field.name: getattr(fault, field.name) for field in fields(fault)}
            | ({"left": left} if fault.count else {})
            for fault, left in self._rules
        ]

    def take(self, path: str) -> Fault | None:
        """The fault that hits a request to `path`, if any. A rule used up is dropped."""
        for at, (fault, left) in enumerate(self._rules):
            if fault.path not in ("*", path) or (fault.probability < 1 and self._random() >= fault.probability):
                continue
            if left == 1:
                del self._rules[at]
            elif left:
                self._rules[at] = (fault, left - 1)
            self.applied += 1
            return fault
        return None


def parse_fault(values: Any) -> Fault:
    """A rule from a JSON object. Raises ValueError, naming every problem."""
    if not isinstance(values, dict):
        raise ValueError("a fault is a JSON object")  # noqa: TRY004  wrong data, not a wrong call
    problems = [f"unknown field {name!r}" for name in values if name not in _CHECKS]
    problems += [
        f"{name} must be {wanted}"
        for name, (check, wanted) in _CHECKS.items()
        if name in values and not check(values[name])
    ]
    if "kind" not in values:
        problems.append("kind is missing")
    if problems:
        raise ValueError("; ".join(problems))
    return Fault(**values)


def parse_fault_spec(spec: str) -> Fault:
    """A rule from the command line: `kind=error,path=/v1/chat/completions,status=503,count=2`. Raises ValueError."""
    values: dict[str, Any] = {}
    for part in spec.split(","):
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"{part!r} is not of the form name=value")
        values[name.strip()] = _number(value.strip())
    return parse_fault(values)


def fault_spec(fault: Fault) -> str:
    """A rule as it stands on the command line."""
    return ",".join([f"{field.name}={getattr(fault, field.name)}" for field in fields(fault)])


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_STATUSES = range(200, 600)
_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "path": (lambda v: isinstance(v, str) and v[:1] in ("/", "*"), "a path, or *"),
    "kind": (lambda v: v in FAULT_KINDS, f"one of {', '.join(FAULT_KINDS)}"),
    "status": (lambda v: v in _STATUSES, "an HTTP status from 200 to 599"),
    "ms": (lambda v: _is_number(v) and v >= 0, "a number of milliseconds"),
    "after_events": (_is_count, "a whole number, 0 or more"),
    "count": (_is_count, "a whole number, 0 (always) or more"),
    "probability": (lambda v: _is_number(v) and 0 <= v <= 1, "between 0 and 1"),
}
