"""What `smg config show` prints: each option's value in force and where it comes from, without secrets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final

from smg.config.load import Loaded
from smg.config.options import Option, Value
from smg.config.settings import OPTIONS
from smg.config.values import SECRET_SHOWN, shown


def as_text(loaded: Loaded) -> str:
    """A table of three columns, wide enough for all values but the longest."""
    rows = [(row.field, shown(row, value) or "-", origin) for row, value, origin in _entries(loaded)]
    names = max(len(name) for name, _, _ in rows)
    values = min(_WIDEST_VALUE, max(len(value) for _, value, _ in rows))
    return "".join(f"{name:{names}}  {value:{values}}  {origin}\n" for name, value, origin in rows)


def as_yaml(loaded: Loaded) -> str:
    """A file for `--config` that gives the same settings, except for secrets, which are comments."""
    return "".join(_yaml_line(row, value, origin) for row, value, origin in _entries(loaded))


def as_json(loaded: Loaded) -> str:
    """An object of `{"value": …, "origin": …}` by option."""
    entries = {
        row.field: {"value": _printable(row, value), "origin": origin} for row, value, origin in _entries(loaded)
    }
    return json.dumps(entries, indent=2, ensure_ascii=False) + "\n"


def _yaml_line(row: Option, value: Value, origin: str) -> str:
    # A JSON value is a YAML value.
    entry = f"{row.field}: {json.dumps(_printable(row, value), ensure_ascii=False)}  # {origin}\n"
    return entry if row.in_file and not row.secret else f"# {entry}"


def _entries(loaded: Loaded) -> Iterator[tuple[Option, Value, str]]:
    for row in OPTIONS:
        yield row, getattr(loaded.settings, row.field), str(loaded.origins[row.field])


def _printable(row: Option, value: Value) -> Value:
    return SECRET_SHOWN if shown(row, value) == SECRET_SHOWN else value


_WIDEST_VALUE: Final = 60

FORMATS: Final[dict[str, Callable[[Loaded], str]]] = {"text": as_text, "yaml": as_yaml, "json": as_json}
