"""What a log line may contain: values cut to a length, secrets taken out, everything on one line.

Whatever a client sends can end up in a log, so a value must not be able to end its line, start a second one,
or close its quotes and forge a field. Text and JSON lines spell strings the same way, as JSON string literals
in which all that Python does not call printable is escaped: control characters, the Unicode line separators,
lone surrogates.

Headers and keys are not logged in the first place. `Redactor` is the second line of defence, for a secret
that a foreign message or an exception's text carries along.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import isfinite

MAX_VALUE_CHARS = 1024
REDACTED = "[redacted]"
# A shorter secret would be found inside ordinary words, and hide nothing that is worth hiding.
MIN_SECRET_CHARS = 6

_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ASTRAL = 0x10000


class Redactor:
    """Replaces configured secrets, wherever they stand in a text.

    Secrets shorter than `MIN_SECRET_CHARS` are left alone. Of secrets that begin alike the longest is found.
    """

    __slots__ = ("_pattern",)

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        usable = {secret for secret in secrets if len(secret) >= MIN_SECRET_CHARS}
        longest_first = sorted(usable, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if usable else None

    def __call__(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(REDACTED, text)


def cut(text: str, max_chars: int = MAX_VALUE_CHARS) -> str:
    """The beginning of `text`, with an ellipsis where something is missing."""
    return text if len(text) <= max_chars else f"{text[:max_chars]}…"


def one_line(text: str) -> str:
    """`text` without quotes around it, for messages: what is not printable is escaped, all else stays."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def is_plain(text: str) -> bool:
    """Whether `text` can stand between quotes as it is."""
    return text.isprintable() and '"' not in text and "\\" not in text


def escaped(text: str) -> str:
    """`text` as it stands between the quotes of a JSON string literal without any unprintable character."""
    return text if is_plain(text) else "".join(map(_escaped, text))


def quoted(text: str) -> str:
    """`text` as a JSON string literal without any unprintable character."""
    return f'"{escaped(text)}"'


def literal(value: object, redact: Redactor) -> str:
    """A field's value as JSON: numbers, booleans and None bare, all else as a quoted, redacted and cut
    string.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) or (isinstance(value, float) and isfinite(value)):
        return repr(value)
    return quoted(cut(redact(str(value))))


def _escaped(char: str) -> str:
    if short := _SHORT_ESCAPES.get(char):
        return short
    if char.isprintable():
        return char
    code = ord(char)
    if code < _ASTRAL:
        return f"\\u{code:04x}"
    # JSON writes what lies beyond 16 bits as a pair of surrogates.
    code -= _ASTRAL
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
