"""The YAML file to raw texts, with the line each one stands on.

Scalars are taken as they are written, before YAML gives them a type: `0123` stays a key of four digits, and a
number is read by the same rule as on the command line. `null` leaves an option unset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import yaml

from smg.config.options import Option
from smg.config.origins import Given, Origin, suggestion

_NULL = "tag:yaml.org,2002:null"


@dataclass(slots=True)
class _Reading:
    """The file being read: its name for origins, the rows by key, and what was found so far."""

    name: str
    keys: dict[str, Option]
    given: dict[str, Given] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)


def read_yaml(text: str, name: str, rows: Sequence[Option]) -> tuple[dict[str, Given], list[str]]:
    """What the file gives, by field, and what cannot be read of it. `name` is what origins and problems call
    it.

    Keys may be written with `_` or `-`, and by an option's other names. A list is a sequence, or one text
    with its items separated by commas or white space.
    """
    reading = _Reading(name, {key: row for row in rows for key in row.keys})
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        # The parser's own words quote the text, which may be a secret.
        mark = getattr(error, "problem_mark", None)
        return {}, [f"{name}:{mark.line + 1 if mark else 1}: is not valid YAML"]
    if isinstance(root, yaml.MappingNode):
        for key, value in root.value:
            _read_entry(reading, key, value)
    elif root is not None:
        reading.problems.append(f"{name}: must map option names to values")
    return reading.given, reading.problems


def _read_entry(reading: _Reading, key: yaml.Node, node: yaml.Node) -> None:
    where = f"{reading.name}:{key.start_mark.line + 1}"
    spelled = str(key.value) if isinstance(key, yaml.ScalarNode) else "?"
    row = reading.keys.get(spelled.replace("-", "_"))
    if row is None:
        close = suggestion(spelled.replace("-", "_"), list(reading.keys))
        reading.problems.append(f"{where}: unknown key {spelled!r}{close}")
    elif row.field in reading.seen:
        reading.problems.append(f"{row.flag}: is given twice (from {where})")
    else:
        reading.seen.add(row.field)
        _read_value(reading, row, node, Origin("file", where))


def _read_value(reading: _Reading, row: Option, node: yaml.Node, origin: Origin) -> None:
    if node.tag == _NULL:
        return
    texts = _texts(row, node)
    if texts is None:
        expected = "a list of plain values" if row.many else "one plain value"
        reading.problems.append(f"{row.flag}: must be {expected}{origin.aside}")
    else:
        reading.given[row.field] = Given(texts, origin)


def _texts(row: Option, node: yaml.Node) -> tuple[str, ...] | None:
    if isinstance(node, yaml.ScalarNode):
        text = str(node.value)
        return tuple(text.replace(",", " ").split()) if row.many and not row.grouped else (text,)
    if not row.many or not isinstance(node, yaml.SequenceNode):
        return None
    if not all(isinstance(item, yaml.ScalarNode) for item in node.value):
        return None
    return tuple(str(item.value) for item in node.value)
