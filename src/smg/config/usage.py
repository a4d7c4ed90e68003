"""The help of the commands that take the option table: every flag by section, with its limits and default."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import fill
from typing import Final

from smg.config.describe import default_text, limits_text, placeholder, sections
from smg.config.options import Option

_WIDTH: Final = 100
_INDENT: Final = " " * 6

_SOURCES: Final = (
    "Every option below is a flag, a key of the YAML file named by --config, and an environment variable: "
    "--port is also the key port (port: 30000) and SMG_PORT. A flag beats a variable, a variable beats the "
    "file. Lists take several values and add up when repeated; in a variable they are separated by commas "
    "or spaces. A flag without a value can be undone with =false."
)


def usage(command: str, summary: str, rows: Sequence[Option]) -> str:
    """The full help text of `command`, such as `smg launch`, whose flags are `rows`."""
    blocks = [f"Usage: {command} [FLAGS]", summary, fill(_SOURCES, _WIDTH)]
    for title, members in sections(rows):
        blocks.append("\n".join([f"{title}:", *(line for row in members for line in _lines(row))]))
    return "\n\n".join(blocks) + "\n"


def _lines(row: Option) -> Iterator[str]:
    heading = f"  {', '.join((*row.flags, *row.off_flags))} {placeholder(row)}".rstrip()
    yield fill(heading, _WIDTH, subsequent_indent="    ", break_on_hyphens=False)
    notes = [limits_text(row), "" if row.item is bool else f"default: {default_text(row)}"]
    note = "; ".join(part for part in notes if part)
    text = f"{row.summary} [{note}]" if note else row.summary
    yield fill(text, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False)
