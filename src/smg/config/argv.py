"""Flags of a command line to raw texts, with every problem collected instead of stopping at the first.

The grammar: `--flag`, `--flag value`, `--flag=value`, and `--flag value value …` for lists. Only what starts
with two dashes is a flag, so `-1` and `-secret` are values. A repeated list adds up; a repeated single value
counts last, so that a script can append an override. A flag without a value takes `=false` to undo what a
file or variable turned on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from smg.config.options import Option
from smg.config.origins import Given, Origin, suggestion


@dataclass(slots=True)
class _Occurrence:
    """A flag as it stands on the command line, with the values up to the next one; the first has no name."""

    name: str
    values: list[str] = field(default_factory=list)
    attached: bool = False


@dataclass(frozen=True, slots=True)
class _Spelling:
    """A way to write an option; `implied` is what the bare flag of a `bool` means."""

    row: Option
    implied: str = "true"


def read_flags(argv: Iterable[str], rows: Sequence[Option]) -> tuple[dict[str, Given], list[str]]:
    """What the command line gives, by field, and what cannot be read of it.

    No problem repeats what follows a flag: it may be a secret behind a misspelled name.
    """
    spellings = _spellings(rows)
    given: dict[str, Given] = {}
    problems: list[str] = []
    for found in _occurrences(argv):
        spelling = spellings.get(found.name)
        if spelling is None:
            problems += _unknown(found, list(spellings))
            continue
        complaint = _complaint(spelling.row, found)
        if complaint:
            problems.append(f"{found.name}: {complaint}")
        else:
            _add(given, spelling, found)
    return given, problems


def _spellings(rows: Sequence[Option]) -> dict[str, _Spelling]:
    spellings = {flag: _Spelling(row) for row in rows for flag in row.flags}
    spellings.update({flag: _Spelling(row, "false") for row in rows for flag in row.off_flags})
    return spellings


def _occurrences(argv: Iterable[str]) -> list[_Occurrence]:
    found = [_Occurrence("")]
    for token in argv:
        if token.startswith("--"):
            name, equals, value = token.partition("=")
            found.append(_Occurrence(name, [value] if equals else [], attached=bool(equals)))
        else:
            found[-1].values.append(token)
    return found


def _unknown(found: _Occurrence, known: list[str]) -> list[str]:
    if not found.name:
        return [f"{value!r} is no flag, every setting is given by one" for value in found.values]
    return [f"{found.name}: unknown flag{suggestion(found.name, known)}"]


def _complaint(row: Option, found: _Occurrence) -> str | None:
    count = len(found.values)
    if row.item is bool:
        expected = int(found.attached and found.name not in row.off_flags)
        return None if count == expected else f"takes no value, {row.flag}=false turns it off"
    if row.many:
        return "needs a value" if row.grouped and not count else None
    if count == 1:
        return None
    return f"takes one value, got {count}" if count else "needs a value"


def _add(given: dict[str, Given], spelling: _Spelling, found: _Occurrence) -> None:
    row = spelling.row
    texts = tuple(found.values) or (() if row.many else (spelling.implied,))
    if row.grouped:
        texts = (" ".join(texts),)
    if row.many and row.field in given:
        texts = given[row.field].texts + texts
    given[row.field] = Given(texts, Origin("flag", found.name))
