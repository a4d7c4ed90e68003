"""Where a value comes from, the raw texts a source gave for an option, and what a misspelled name may have meant."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal

# A suggestion that is far off is worse than none; short names share too many letters by chance.
_ALIKE: Final = 0.75


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of a value: `where` is the flag, the variable, or `path:line` of the file; empty for a
    default.
    """

    kind: Literal["default", "file", "env", "flag"]
    where: str = ""

    def __str__(self) -> str:
        return self.where or self.kind

    @property
    def aside(self) -> str:
        """The end of a problem's sentence that says where to look; a flag is named already."""
        return f" (from {self.where})" if self.kind in {"file", "env"} else ""


DEFAULT = Origin("default")


@dataclass(frozen=True, slots=True)
class Given:
    """What one source says of one option. A single option has exactly one text, a list any number."""

    texts: tuple[str, ...]
    origin: Origin


def suggestion(name: str, known: list[str]) -> str:
    """`, did you mean …?` for an unknown name that looks like a known one."""
    close = get_close_matches(name, known, n=1, cutoff=_ALIKE)
    return f", did you mean {close[0]}?" if close else ""
