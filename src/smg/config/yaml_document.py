"""A YAML file with a shape of its own, read node by node: every problem is noted with its line, nothing raises.

What the fields mean is left to whoever reads the file. A value that cannot be read is reported and replaced by a
stand-in, so that one mistake does not hide the next. Scalars are taken as they are written, before YAML gives them a
type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import yaml

from smg.config.origins import suggestion
from smg.errors import ConfigError

Choice = TypeVar("Choice")

_NULL: Final = "tag:yaml.org,2002:null"
# Fifteen digits: nothing sensible is larger, and no sum of such numbers loses precision in a double.
_WHOLE: Final = re.compile(r"[0-9]{1,15}")
_TRUTH: Final = {"true": True, "false": False}
_LONGEST_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Value:
    """A node of the file: the path to it in dots, as problems name it, and the line of its name, else its own."""

    path: str
    node: yaml.Node
    line: int


def _at(path: str, node: yaml.Node, name: yaml.Node | None = None) -> Value:
    return Value(path, node, (name or node).start_mark.line + 1)


@dataclass(slots=True)
class Document:
    """The file being read: the flag that names it, its path, and what was found to be wrong with it."""

    flag: str
    name: str
    problems: list[str] = field(default_factory=list)

    def complain(self, value: Value, text: str) -> None:
        """Note what is wrong with a value: the end of a sentence that starts with its path."""
        subject = f"{value.path} " if value.path else ""
        self.problems.append(f"{self.flag}: {subject}{text} (from {self.name}:{value.line})")

    def refuse(self) -> None:
        """Raise ConfigError if anything is wrong."""
        if self.problems:
            raise ConfigError(self.problems)

    # --- structure

    def fields(self, value: Value, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Value]:
        """The members of an object whose members are known; an explicit null counts as absent."""
        found: dict[str, Value] = {}
        known = [*required, *optional]
        for name, member in self.entries(value):
            if name not in known:
                self.complain(member, f"is no known field{suggestion(name, known)}")
            elif member.node.tag != _NULL:
                found[name] = member
        missing = [name for name in required if name not in found]
        if missing and isinstance(value.node, yaml.MappingNode):
            self.complain(value, f"must have {' and '.join(missing)}")
        return found

    def entries(self, value: Value) -> Iterator[tuple[str, Value]]:
        """The members of any object by name, each at its own line. A repeated name counts once."""
        if not isinstance(value.node, yaml.MappingNode):
            self.complain(value, "must map names to values")
            return
        seen: set[str] = set()
        for key, node in value.node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else "?"
            path = f"{value.path}.{name}" if value.path else name
            if name in seen:
                self.complain(_at(path, key), "is given twice")
                continue
            seen.add(name)
            yield name, _at(path, node, key)

    def items(self, value: Value) -> list[Value]:
        """The items of a list."""
        if isinstance(value.node, yaml.SequenceNode):
            return [_at(f"{value.path}[{index}]", node) for index, node in enumerate(value.node.value)]
        self.complain(value, "must be a list")
        return []

    # --- scalars

    def whole(self, value: Value, minimum: int) -> int:
        """A whole number, not below `minimum`."""
        text = self.text(value)
        if _WHOLE.fullmatch(text) and int(text) >= minimum:
            return int(text)
        self._expected(value, f"a whole number of at least {minimum}", text)
        return minimum

    def number(
        self, value: Value, *, above: float = -math.inf, minimum: float = 0.0, maximum: float = math.inf
    ) -> float:
        """A finite number between `minimum` and `maximum`, and more than `above`."""
        text = self.text(value)
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if math.isfinite(number) and number > above and minimum <= number <= maximum:
            return number
        limits = (("above", above), ("of at least", minimum if above < minimum else math.inf), ("of at most", maximum))
        wanted = " and ".join(f"{word} {limit:g}" for word, limit in limits if math.isfinite(limit))
        self._expected(value, f"a number {wanted}", text)
        return 1.0

    def truth(self, value: Value) -> bool:
        """True or false."""
        return self.choice(value, _TRUTH) or False

    def choice(self, value: Value, choices: Mapping[str, Choice]) -> Choice | None:
        """What one of some words stands for; None if it is none of them."""
        text = self.text(value)
        if text in choices:
            return choices[text]
        self._expected(value, f"one of {', '.join(choices)}", text)
        return None

    def text(self, value: Value) -> str:
        """A plain value as it is written; empty if it is none."""
        return str(value.node.value) if isinstance(value.node, yaml.ScalarNode) else ""

    def _expected(self, value: Value, what: str, text: str) -> None:
        shown = f", got {text[:_LONGEST_SHOWN]!r}" if isinstance(value.node, yaml.ScalarNode) else ""
        self.complain(value, f"must be {what}{shown}")


def open_document(flag: str, path: str, read_text: Callable[[str], str]) -> tuple[Document, Value | None]:
    """Read a file; its root is None if it is empty.

    Raises:
        ConfigError: It cannot be read, or is not YAML.
    """
    try:
        root = yaml.compose(read_text(path), Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise ConfigError([f"{flag}: is not valid YAML (from {path}:{mark.line + 1 if mark else 1})"]) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError([f"{flag}: cannot read {path!r}: {reason}"]) from None
    return Document(flag, path), None if root is None or root.tag == _NULL else _at("", root)
