"""Numbers of the pages are those of the code."""

import re
from operator import attrgetter

from smg.config.settings import OPTIONS
from smg.config.values import spell
from smg.lazy import resolve

# The pages write a default in brackets behind its flag: `--queue-size` (100), and may add a word: (0, off).
DEFAULT = re.compile(r"`(--[a-z0-9-]+)`\s\(([^)]+)\)")
# The guide to reliability has a column for it.
TIMEOUT = re.compile(r"^\|[^|]+\| `(--[a-z0-9-]+)` \| ([0-9]+) s \|", re.MULTILINE)
LIMIT = re.compile(r"^\| [^|]+ \| ([0-9]+)[^|]* \| `(smg\.[\w.]+)` \|", re.MULTILINE)

by_flag = {flag: row for row in OPTIONS for flag in row.flags}


def value_said(text):
    return text.partition(",")[0].strip("`")


def test_every_default_behind_a_flag_is_the_options_default(text):
    wrong = [
        (flag, said, spell(by_flag[flag].default))
        for flag, said in DEFAULT.findall(text)
        if flag in by_flag and value_said(said) != spell(by_flag[flag].default)
    ]
    assert wrong == []


def test_the_table_of_timeouts_has_the_options_defaults(root):
    table = TIMEOUT.findall((root / "docs" / "guides" / "reliability.md").read_text(encoding="utf-8"))
    assert len(table) >= 7
    assert [(flag, said) for flag, said in table if said != spell(by_flag[flag].default)] == []


def test_the_limits_of_the_page_of_promises_are_the_codes(root):
    table = LIMIT.findall((root / "docs" / "behaviour.md").read_text(encoding="utf-8"))
    assert len(table) >= 9
    for said, name in table:
        assert int(said) == constant(name), name


def constant(name):
    """The value behind a dotted name: the longest part that is a module, and its attributes."""
    module, _, rest = name.rpartition(".")
    while module:
        head, _, tail = rest.partition(".")
        try:
            value = resolve(f"{module}:{head}")
        except ModuleNotFoundError:
            module, _, last = module.rpartition(".")
            rest = f"{last}.{rest}"
            continue
        if not tail:
            return value
        return attrgetter(tail)(value())  # a field of an options class, at its default
    raise AssertionError(f"{name} names nothing")
