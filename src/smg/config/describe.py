"""How an option is described to people: what its value looks like, its default and its limits.

Shared by the help of the command line (`usage`) and the reference page (`reference`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from smg.config.options import Option
from smg.config.values import spell

_PLACEHOLDERS: Final = {str: "TEXT", int: "N", float: "NUMBER", bool: ""}


def sections(rows: Sequence[Option]) -> Iterator[tuple[str, list[Option]]]:
    """The rows by section, in the order of the table."""
    for title, members in groupby(rows, key=lambda row: row.section):
        yield title, list(members)


def placeholder(row: Option) -> str:
    """What stands for the value behind the flag: `N`, `URL ...`; empty for a flag without a value."""
    if row.choices:
        return "CHOICE"
    name = row.form.placeholder if row.form else _PLACEHOLDERS[row.item]
    if row.item is float and row.field.endswith("_secs"):
        name = "SECS"
    return f"{name} ..." if row.many else name


def default_text(row: Option) -> str:
    """The default as one would type it, or `none`."""
    return spell(row.default) or "none"


def limits_text(row: Option) -> str:
    """The limits of the value in words: `at least 1, at most 65535`; empty if there are none."""
    limits = (("at least", row.minimum), ("above", row.above), ("at most", row.maximum))
    parts = [f"{word} {spell(number)}" for word, number in limits if number is not None]
    return ", ".join(parts) or (f"one of {', '.join(row.choices)}" if row.choices else "")
