"""From a command line, an environment and a YAML file to settings, or to every problem with them.

A flag beats a variable, a variable beats the file, the file beats the default. A text is only judged where it
wins, so an operator can override a bad value from below; a key or flag that does not exist is always a
problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smg.config.argv import read_flags
from smg.config.checks import check
from smg.config.environment import read_environ
from smg.config.options import Option
from smg.config.origins import DEFAULT, Given, Origin
from smg.config.settings import OPTIONS, Settings
from smg.config.values import convert
from smg.errors import ConfigError

_ROWS = {row.field: row for row in OPTIONS}


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings in force, and for each field where its value comes from."""

    settings: Settings
    origins: Mapping[str, Origin]


def read_file(path: str) -> str:
    """The text of a file in UTF-8. Raises OSError or UnicodeDecodeError."""
    return Path(path).read_text(encoding="utf-8")


def load(
    argv: Iterable[str],
    environ: Mapping[str, str],
    read_text: Callable[[str], str] = read_file,
) -> Loaded:
    """Read all sources and check the result.

    `argv` holds flags only, `environ` is the process environment, and `read_text` opens the file that
    `--config` or `SMG_CONFIG` names, if one does.

    Raises:
        ConfigError: Something is wrong; it holds a sentence for each problem, in the order of the sources and
            then of the option table, and no secret.
    """
    flags, problems = read_flags(argv, OPTIONS)
    given = {**read_environ(environ, OPTIONS), **flags}
    if "config" in given and given["config"].texts[0]:
        from_file, file_problems = _read_config(given["config"], read_text)
        given = {**from_file, **given}
        problems += file_problems
    judged = _judge(given)
    settings = Settings(**judged.values)
    problems += judged.problems
    for complaint in check(settings, OPTIONS, judged.unsound):
        problems.append(_sentence(_ROWS[complaint.field], complaint.text, given))
    if problems:
        raise ConfigError(problems)
    return Loaded(settings, {name: given[name].origin if name in given else DEFAULT for name in _ROWS})


def _read_config(config: Given, read_text: Callable[[str], str]) -> tuple[dict[str, Given], list[str]]:
    from smg.config.yaml_file import read_yaml  # noqa: PLC0415  YAML is slow to load and rarely needed

    path = config.texts[0]
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        return {}, [f"--config: cannot read {path!r}: {reason}{config.origin.aside}"]
    return read_yaml(text, path, OPTIONS)


@dataclass(slots=True)
class _Judged:
    """What the winning texts say: values by field, sentences, and the fields left at their default."""

    values: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    unsound: set[str] = field(default_factory=set)


def _judge(given: Mapping[str, Given]) -> _Judged:
    judged = _Judged()
    for row in OPTIONS:
        if row.field not in given:
            continue
        judged.values[row.field], complaints = convert(row, given[row.field].texts)
        judged.problems += [_sentence(row, text, given) for text in complaints]
        if complaints:
            judged.unsound.add(row.field)
    return judged


def _sentence(row: Option, complaint: str, given: Mapping[str, Given]) -> str:
    aside = given[row.field].origin.aside if row.field in given else ""
    return f"{row.flag}: {complaint}{aside}"
