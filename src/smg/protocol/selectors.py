r"""Label selectors: which workers a fan-out is for, written in one line.

    selector := term ("," term)*                     every term must hold
    term     := key "=" value | key "!=" value | key "in" list | key "notin" list
    list     := "(" value ("," value)* ")"
    key      := one or more of A-Z a-z 0-9 _ . / -
    value    := bare | quoted                        bare: no space, comma, parenthesis or double quote
    quoted   := '"' (any character, or \" or \\)* '"'

White space around keys, operators and values means nothing. A bare value behind `=` or `!=` cannot begin with `=`, so
that `a==b`, which other tools read as `a=b`, is a mistake that shows and not a value that nobody has. Which keys a
worker has is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

_SPACE: Final = re.compile(r"\s*")
_KEY: Final = re.compile(r"[A-Za-z0-9_./-]+")
# A word is an operator only with white space or its list behind it.
_OPERATOR: Final = re.compile(r"=|!=|(?:not)?in(?=[\s(])")
_BARE: Final = re.compile(r'[^\s,()"]+')
_UNESCAPED: Final = re.compile(r'[^"\\]*')
_ESCAPABLE: Final = ('"', "\\")
_NEEDS_QUOTES: Final = re.compile(r'[\s,()"]|^=|^$')


class SelectorError(ValueError):
    """A text is no selector. `offset` is where the problem is, in bytes of its UTF-8; `reason` says what it is."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"invalid selector at byte {offset}: {reason}")
        self.offset = offset
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Term:
    """One condition: the key has one of the values; `negated`: it has none of them, or there is no such key."""

    key: str
    values: tuple[str, ...]
    negated: bool = False

    def matches(self, keys: Mapping[str, str]) -> bool:
        return (keys.get(self.key) in self.values) is not self.negated

    def __str__(self) -> str:
        if len(self.values) == 1:
            return f"{self.key}{'!=' if self.negated else '='}{_spelled(self.values[0])}"
        return f"{self.key} {'notin' if self.negated else 'in'} ({', '.join(map(_spelled, self.values))})"


@dataclass(frozen=True, slots=True)
class Selector:
    """Terms that must all hold. As text it parses back to itself."""

    terms: tuple[Term, ...]

    def matches(self, keys: Mapping[str, str]) -> bool:
        """Whether something with these keys and values is meant. Matching is exact, and case matters."""
        return all(term.matches(keys) for term in self.terms)

    def __str__(self) -> str:
        return ", ".join(map(str, self.terms))


def parse_selector(text: str) -> Selector:
    """Read a selector. Raises SelectorError."""
    return _Parser(text).selector()


def _spelled(value: str) -> str:
    if not _NEEDS_QUOTES.search(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class _Parser:
    """Reads one text from left to right; `_at` is the next character."""

    __slots__ = ("_at", "_text")

    def __init__(self, text: str) -> None:
        self._text = text.rstrip()  # so that a missing rest is reported where it is missing
        self._at = 0

    def selector(self) -> Selector:
        terms = [self._term("expected a key")]
        while self._take(","):
            terms.append(self._term("expected a key after `,`"))
        if self._at < len(self._text):
            self._fail("expected `,` or the end")
        return Selector(tuple(terms))

    def _term(self, without_key: str) -> Term:
        self._skip()
        key = self._match(_KEY) or self._fail(without_key)
        self._skip()
        operator = self._match(_OPERATOR) or self._fail("expected one of `=`, `!=`, `in (...)` and `notin (...)`")
        if operator in {"in", "notin"}:
            values = self._list()
        else:
            self._skip()
            if self._text.startswith("=", self._at):
                self._fail("a value that begins with `=` needs double quotes")
            values = (self._value(),)
        return Term(key, values, negated=operator in {"!=", "notin"})

    def _list(self) -> tuple[str, ...]:
        if not self._take("("):
            self._fail("expected `(`")
        values = [self._value()]
        while self._take(","):
            values.append(self._value())
        if not self._take(")"):
            self._fail("expected `,` or `)`")
        return tuple(values)

    def _value(self) -> str:
        self._skip()
        if self._text.startswith('"', self._at):
            return self._quoted()
        return self._match(_BARE) or self._fail("expected a value")

    def _quoted(self) -> str:
        text = self._text
        pieces: list[str] = []
        self._at += 1
        while True:
            pieces.append(self._match(_UNESCAPED))
            if self._at == len(text):
                self._fail("the quoted value does not end")
            if text[self._at] == '"':
                self._at += 1
                return "".join(pieces)
            escaped = text[self._at + 1 : self._at + 2]
            if escaped not in _ESCAPABLE:
                self._fail('only `\\"` and `\\\\` are escapes')
            pieces.append(escaped)
            self._at += 2

    def _take(self, character: str) -> bool:
        """Whether this character comes next, white space aside; it is then behind us."""
        self._skip()
        if not self._text.startswith(character, self._at):
            return False
        self._at += 1
        return True

    def _skip(self) -> None:
        self._match(_SPACE)

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        return found[0]

    def _fail(self, reason: str) -> NoReturn:
        raise SelectorError(len(self._text[: self._at].encode("utf-8", "surrogatepass")), reason)
