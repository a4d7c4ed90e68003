"""Which log events are wanted, by target and level.

A filter is a list of directives such as `warn,smg_rl=debug`: a bare level is the default, `target=level` is
for every target that begins so, and the longest match decides. It is the notation of `RUST_LOG`, which
operators of SMG know; its span and field directives have no counterpart here and make a filter invalid. `.`
and `::` separate alike.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

TRACE = 5
OFF = logging.CRITICAL + 10

_LEVELS = {
    "trace": TRACE,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "off": OFF,
}
_NAMES = tuple((_LEVELS[name], name.upper()) for name in ("error", "warn", "info", "debug"))
_TARGET = re.compile(r"[\w:.-]+")


def level_name(level: int) -> str:
    """A level as lines spell it: the nearest of TRACE, DEBUG, INFO, WARN and ERROR that is not above it."""
    for floor, name in _NAMES:
        if level >= floor:
            return name
    return "TRACE"


def target_name(logger_name: str) -> str:
    """A logger's name as lines spell it: `smg.fleet` is the target `smg::fleet`."""
    return logger_name.replace(".", "::")


@dataclass(frozen=True, slots=True)
class LogFilter:
    """The least levels that pass: `default`, and those of target prefixes, longest prefix first."""

    default: int
    directives: tuple[tuple[str, int], ...] = ()

    @classmethod
    def for_level(cls, level: str) -> LogFilter:
        """The gateway's events from `level` up (debug, info, warn or error), others from warnings up."""
        return cls(logging.WARNING, (("smg", _LEVELS[level]),))

    @classmethod
    def parse(cls, text: str) -> LogFilter:
        """Read directives separated by commas.

        A target without a level passes everything. Without a bare level, other targets pass from errors up.

        Raises:
            ValueError: a directive is neither a level nor a target with or without one.
        """
        default = logging.ERROR
        found: dict[str, int] = {}
        for directive in filter(None, map(str.strip, text.split(","))):
            target, separator, level = directive.partition("=")
            if not separator and target.lower() in _LEVELS:
                default = _LEVELS[target.lower()]
                continue
            if not _TARGET.fullmatch(target) or level.lower() not in {*_LEVELS, ""}:
                raise ValueError(f"not a log filter directive: {directive}")
            found[target_name(target)] = _LEVELS[level.lower() or "trace"]
        return cls(default, tuple(sorted(found.items(), key=lambda item: -len(item[0]))))

    @property
    def lowest(self) -> int:
        """The least level that passes for any target."""
        return min(self.default, *(level for _, level in self.directives), OFF)

    def threshold(self, target: str) -> int:
        """The least level that passes for `target`."""
        target = target_name(target)
        for prefix, level in self.directives:
            if target.startswith(prefix):
                return level
        return self.default
