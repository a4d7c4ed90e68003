"""The command line: which command is meant, and what it prints. What a command does is left to others.

`smg launch` starts the gateway from the option table, `smg config show` prints what it would start with. The
other commands read their flags themselves. Everything heavy is imported when its command runs, so that `smg
--help` is instant.

Exit codes: 0 is success, 2 a command line or configuration that cannot be used; others come from the command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from smg import __version__
from smg.config.load import Loaded, load
from smg.config.origins import suggestion
from smg.config.settings import OPTIONS
from smg.config.show import FORMATS
from smg.config.usage import usage
from smg.errors import ConfigError
from smg.lazy import resolve

_REFUSED: Final = 2
_HELP: Final = frozenset({"-h", "--help"})

_LAUNCH_SUMMARY: Final = "Start the gateway in front of workers that are running already."
_SHOW_SUMMARY: Final = (
    "Print the settings that these flags would start the gateway with, and where each comes from.\n"
    f"--format chooses between {', '.join(FORMATS)}; the default is text."
)


@dataclass(frozen=True, slots=True)
class Command:
    """A command: what `smg --help` says of it, and what runs it with the arguments behind its name."""

    summary: str
    run: Callable[[Sequence[str]], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, `sys.argv` by default, and return the exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if not arguments or arguments[0] in _HELP:
        sys.stdout.write(_overview())
        return 0
    if arguments[0] == "--version":
        sys.stdout.write(f"smg {__version__}\n")
        return 0
    try:
        return _dispatch(arguments)
    except ConfigError as error:
        sys.stderr.write("".join(f"{problem}\n" for problem in error.problems))
        return _REFUSED


def _dispatch(arguments: list[str]) -> int:
    name = arguments[0]
    if name.startswith("-"):
        return _launch(arguments)
    command = COMMANDS.get(name)
    if command is None:
        raise ConfigError([f"smg: unknown command {name!r}{suggestion(name, list(COMMANDS))} (see smg --help)"])
    return command.run(arguments[1:])


def _launch(arguments: Sequence[str]) -> int:
    if _HELP.intersection(arguments):
        sys.stdout.write(usage("smg launch", _LAUNCH_SUMMARY, OPTIONS))
        return 0
    loaded = load(arguments, os.environ)
    return int(resolve("smg.app.run:run")(loaded.settings))


def _config(arguments: Sequence[str]) -> int:
    if _HELP.intersection(arguments):
        sys.stdout.write(usage("smg config show [--format FORMAT]", _SHOW_SUMMARY, OPTIONS))
        return 0
    if not arguments or arguments[0] != "show":
        raise ConfigError(["smg config: the one thing to do is show, as in smg config show"])
    flags, shape, problems = _take_format(arguments[1:])
    sys.stdout.write(FORMATS[shape](_load_with(problems, flags)))
    return 0


def _take_format(arguments: Sequence[str]) -> tuple[list[str], str, list[str]]:
    """Take `--format` out of the flags: the others, the format, and what is wrong with it."""
    flags: list[str] = []
    shapes = ["text"]
    rest = iter(arguments)
    for argument in rest:
        if argument == "--format":
            shapes.append(next(rest, ""))
        elif argument.startswith("--format="):
            shapes.append(argument.partition("=")[2])
        else:
            flags.append(argument)
    if shapes[-1] in FORMATS:
        return flags, shapes[-1], []
    return flags, "text", [f"--format: must be one of {', '.join(FORMATS)}, got {shapes[-1]!r}"]


def _load_with(problems: list[str], flags: Sequence[str]) -> Loaded:
    """Load, and report the problems found before together with those of the options."""
    try:
        loaded = load(flags, os.environ)
    except ConfigError as error:
        raise ConfigError([*problems, *error.problems]) from None
    if problems:
        raise ConfigError(problems)
    return loaded


def _elsewhere(reference: str) -> Callable[[Sequence[str]], int]:
    """A command of another module, imported when it runs. It is given the arguments behind its name."""
    return lambda arguments: int(resolve(reference)(list(arguments)))


def _overview() -> str:
    listed = "".join(f"  {name:8} {command.summary}\n" for name, command in COMMANDS.items())
    return (
        "Usage: smg COMMAND [FLAGS]\n\n"
        "A gateway with one OpenAI-compatible API and one RL control plane in front of inference engines.\n\n"
        f"Commands:\n{listed}\n"
        "Flags without a command are those of launch. smg COMMAND --help lists the flags of a command, and\n"
        "smg --version prints the version.\n\n"
        "  smg launch --worker-urls http://127.0.0.1:8000 http://127.0.0.1:8001 --policy cache_aware\n"
    )


COMMANDS: Final[dict[str, Command]] = {
    "launch": Command(_LAUNCH_SUMMARY, _launch),
    "serve": Command("Start simulated engines and a gateway in front of them.", _elsewhere("smg.app.serve:main")),
    "sim": Command("Start simulated engines, to try the gateway without a GPU.", _elsewhere("smg.sim.cli:main")),
    "config": Command("Show the settings in force and where each comes from (smg config show).", _config),
}
