"""Text to values and back: the one reading that flags, variables and the YAML file share.

Ranges are not looked at here, since whether they hold may depend on another option (`checks`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from smg.config.options import Option, Value

SECRET_SHOWN: Final = "<set>"  # noqa: S105  what is printed instead of a secret

_TRUTH: Final = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_USERINFO: Final = re.compile(r"//[^/\s]*@")
# Timers and counters hold 64 bits and count milliseconds; nothing sensible is larger.
_LARGEST: Final = 10**15


def convert(row: Option, texts: Sequence[str]) -> tuple[Value, list[str]]:
    """The value that `texts` spell, and what is wrong with them.

    A single option takes exactly one text. While there are complaints, the value is the option's default. A
    list keeps each text once, in the order given; lists of numbers may also be separated by commas.
    """
    values: list[Any] = []  # of the row's item type
    complaints: list[str] = []
    for text in _pieces(row, texts):
        try:
            values.append(_read(row, text))
        except ValueError as error:
            complaints.append(str(error) + got(row, text))
    if complaints:
        return row.default, complaints
    if not row.many:
        return values[0], []
    return tuple(dict.fromkeys(values) if row.item is str else values), []


def got(row: Option, value: Value) -> str:
    """`, got <value>` for the end of a complaint; nothing for a secret."""
    if row.secret:
        return ""
    if isinstance(value, str):
        return f", got {_USERINFO.sub('//***@', value)!r}"
    return f", got {spell(value)}"


def spell(value: Value) -> str:
    """The value as one would type it; an unset one is empty."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return " ".join(spell(item) for item in value)
    if isinstance(value, float):
        return str(value).removesuffix(".0")
    return str(value)


def shown(row: Option, value: Value) -> str:
    """The value as it may be printed: a secret only says whether it is set."""
    return SECRET_SHOWN if row.secret and value not in {None, ()} else spell(value)


def _pieces(row: Option, texts: Sequence[str]) -> Sequence[str]:
    if not row.many or row.item is str:
        return texts
    return [piece for text in texts for piece in re.split(r"[\s,]+", text) if piece]


def _read(row: Option, text: str) -> str | int | float | bool:
    if row.choices and text not in row.choices:
        raise ValueError(f"must be one of {', '.join(row.choices)}")
    return _READERS[row.item](row, text)


def _read_text(row: Option, text: str) -> str:
    if not text:
        raise ValueError("must not be empty")
    if not text.isprintable():
        raise ValueError("must not hold line breaks or other control characters")
    if row.form is None:
        return text
    complaint = row.form.complaint(text)
    if complaint is not None:
        raise ValueError(complaint)
    return row.form.clean(text)


def _read_integer(_row: Option, text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError("must be a whole number")
    number = int(text)
    _refuse_giant(number)
    return number


def _read_number(_row: Option, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError("must be a number") from None
    if not math.isfinite(number):
        raise ValueError("must be a finite number")
    _refuse_giant(number)
    return number


def _refuse_giant(number: float) -> None:
    if abs(number) > _LARGEST:
        raise ValueError("is out of reach")


def _read_truth(_row: Option, text: str) -> bool:
    try:
        return _TRUTH[text.lower()]
    except KeyError:
        raise ValueError("must be true or false") from None


_READERS: dict[type, Callable[[Option, str], str | int | float | bool]] = {
    str: _read_text,
    int: _read_integer,
    float: _read_number,
    bool: _read_truth,
}
