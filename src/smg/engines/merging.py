"""Many engines' Prometheus texts as one: every series under its engine's address, every family described once.

The format wants all series of a family in one place. A family is what HELP and TYPE lines name, with the series that
end in one of its suffixes; a series that nothing describes is a family of its own. What is no line of the format is
dropped, because a scraper gives up a whole text for one such line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

ADDRESS_LABEL = "worker_addr"

# name, labels (without their braces), value and perhaps a time. Values of labels may hold anything but a raw quote.
# Nothing is tried twice: the texts are long and come from outside.
_SERIES = re.compile(
    r"(?P<name>[A-Za-z_:][A-Za-z0-9_:]*+)"
    r'(?:\{(?P<labels>(?:[A-Za-z_][A-Za-z0-9_]*+="[^"\\]*+(?:\\.[^"\\]*+)*+"(?:,|(?=\}))[ \t]*+)*+)\})?'
    r"[ \t]++(?P<value>[^ \t]++(?:[ \t]++-?[0-9]++)?)[ \t]*"
)
_NUMBER = re.compile(r"[+-]?(?:inf|nan|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_OWN = re.compile(rf'(^|,)[ \t]*{ADDRESS_LABEL}="')
_KINDS = frozenset({"counter", "gauge", "histogram", "summary", "untyped"})
# What a histogram and a summary append to their name.
_SUFFIXES = ("_bucket", "_sum", "_count")


@dataclass(slots=True)
class _Family:
    help: str | None = None
    kind: str | None = None
    series: list[str] = field(default_factory=list)


class Merger:
    """Takes texts in with `feed`, one an engine, and gives the whole with `finish`."""

    def __init__(self) -> None:
        self._families: dict[str, _Family] = {}

    def feed(self, text: str, address: str) -> None:
        """Take in one engine's text."""
        label = f'{ADDRESS_LABEL}="{_escaped(address)}"'
        for line in text.split("\n"):
            if line.startswith("#"):
                self._describe(line)
            elif line:
                self._add(line, label)

    def finish(self) -> str:
        """The merged text; families in the order in which they came up."""
        lines: list[str] = []
        for name, family in self._families.items():
            if family.series:
                if family.help is not None:
                    lines.append(f"# HELP {name} {family.help}")
                if family.kind is not None:
                    lines.append(f"# TYPE {name} {family.kind}")
                lines += family.series
        return "\n".join([*lines, ""])

    def _describe(self, line: str) -> None:
        """Note what a comment says of a family, if it is the first to say it."""
        _, _, rest = line.partition(" ")
        word, _, rest = rest.lstrip().partition(" ")
        name, _, said = rest.lstrip().partition(" ")
        if word not in {"HELP", "TYPE"} or not _NAME.fullmatch(name):
            return
        family = self._families.setdefault(name, _Family())
        if word == "HELP" and family.help is None:
            family.help = said.rstrip("\r")
        elif word == "TYPE" and family.kind is None and said.strip() in _KINDS:
            family.kind = said.strip()

    def _add(self, line: str, label: str) -> None:
        found = _SERIES.fullmatch(line.rstrip("\r"))
        if found is None or not _NUMBER.fullmatch(found["value"].split()[0]):
            return
        name, labels = found["name"], (found["labels"] or "").rstrip(", \t")
        if ADDRESS_LABEL in labels:  # a label may stand there once
            labels = _OWN.sub(rf'\1exported_{ADDRESS_LABEL}="', labels)
        joined = f"{labels},{label}" if labels else label
        self._family(name).series.append(f"{name}{{{joined}}} {found['value']}")

    def _family(self, name: str) -> _Family:
        """The family of a series: of its own name, or of what it is a part of."""
        own = self._families.get(name)
        if own is not None:
            return own
        for suffix in _SUFFIXES:
            if name.endswith(suffix):
                whole = self._families.get(name.removesuffix(suffix))
                if whole is not None and whole.kind in {"histogram", "summary"}:
                    return whole
        return self._families.setdefault(name, _Family())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
