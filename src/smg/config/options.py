"""What an option is: one field of `Settings`, and everything that follows from its declaration.

A field declared with `option()` is at once a flag, a key of the YAML file and an environment variable; its
type, its default and its limits are written once. Reading the four sources is left to `argv`, `environment`
and `yaml_file`, turning text into values to `values`, and what depends on more than one field to `checks`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields, replace
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

POLICY_NAMES = (
    "random",
    "round_robin",
    "passthrough",
    "power_of_two",
    "least_load",
    "consistent_hashing",
    "prefix_hash",
    "manual",
    "cache_aware",
)
# Prefill workers may also be chosen by the length of the prompt.
PREFILL_POLICY_NAMES = (*POLICY_NAMES, "bucket")
CACHE_INDEXES = ("tree", "hash")
ASSIGNMENT_MODES = ("random", "min_load", "min_group", "delegate")
DISCOVERY_PROVIDERS = ("kubernetes", "file")
LOAD_METRICS = ("expected_wait", "requests", "least_requests")
LOG_LEVELS = ("debug", "info", "warn", "error")

Value = str | int | float | bool | tuple[str, ...] | tuple[int, ...] | tuple[float, ...] | None
T = TypeVar("T", bound=Value)


@dataclass(frozen=True, slots=True)
class Form:
    """How one text value must be written.

    `complaint` says what is wrong with a text, without repeating it, or returns None. `clean` gives the one
    spelling of a valid text that the rest of the gateway sees.
    """

    placeholder: str
    complaint: Callable[[str], str | None]
    clean: Callable[[str], str] = str


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One row of the option table. What the keyword arguments of `option()` mean is said there."""

    default: Value
    summary: str
    section: str
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    form: Form | None = None
    aliases: tuple[str, ...] = ()
    off_flags: tuple[str, ...] = ()
    secret: bool = False
    grouped: bool = False
    in_file: bool = True
    applies: tuple[str, Value] | None = None
    # Derived from the field that carries the row.
    field: str = ""
    item: type = str
    many: bool = False

    @property
    def flag(self) -> str:
        """The flag that problems and help call this option by."""
        return "--" + self.field.replace("_", "-")

    @property
    def flags(self) -> tuple[str, ...]:
        """Every flag that sets this option, its own first."""
        return (self.flag, *self.aliases)

    @property
    def env(self) -> str:
        """The environment variable of this option."""
        return "SMG_" + self.field.upper()

    @property
    def keys(self) -> tuple[str, ...]:
        """The names this option has in the YAML file, with underscores; none if it has no place there."""
        return tuple(flag.removeprefix("--").replace("-", "_") for flag in self.flags) if self.in_file else ()


def option(
    default: T,
    summary: str,
    *,
    section: str,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
    form: Form | None = None,
    aliases: tuple[str, ...] = (),
    off_flags: tuple[str, ...] = (),
    secret: bool = False,
    grouped: bool = False,
    in_file: bool = True,
    applies: tuple[str, Value] | None = None,
) -> T:
    """Declare a field of `Settings`. The field's annotation decides how the option is read.

    `bool` is a flag without a value, a `tuple` takes any number of values and adds up when the flag is
    repeated, `X | None` may be left unset.

    Args:
        default: The value when no source gives one.
        summary: What it does, for the help and the reference page: one or two sentences.
        section: The heading it stands under.
        minimum: The least number allowed.
        above: The number it must exceed.
        maximum: The greatest number allowed.
        choices: The only texts allowed.
        form: How each text must be written.
        aliases: Further flags that mean the same, such as `--sticky-sessions`.
        off_flags: For a `bool`, flags that set it to false.
        secret: Its value is never printed.
        grouped: For a tuple of texts, the values that follow one flag belong together: they become one item,
            joined by a space.
        in_file: False for what cannot stand in the YAML file.
        applies: (field, value): its limits hold only while that field has that value, so that the numbers
            of a disabled feature are nobody's concern.
    """
    row = Option(
        default=default,
        summary=summary,
        section=section,
        minimum=minimum,
        above=above,
        maximum=maximum,
        choices=choices,
        form=form,
        aliases=aliases,
        off_flags=off_flags,
        secret=secret,
        grouped=grouped,
        in_file=in_file,
        applies=applies,
    )
    # What dataclass() is given is a Field; what it leaves in an instance is a T.
    return field(default=default, repr=not secret, metadata={"option": row})


def table_of(settings_type: type[Any]) -> tuple[Option, ...]:
    """The rows of a settings class, in the order of its fields."""
    hints = get_type_hints(settings_type)
    return tuple(_row(declared, hints[declared.name]) for declared in fields(settings_type))


def _row(declared: Field[Any], hint: Any) -> Option:
    row: Option = declared.metadata["option"]
    if get_origin(hint) is tuple:
        return replace(row, field=declared.name, item=get_args(hint)[0], many=True)
    inner = [part for part in get_args(hint) if part is not NoneType]
    return replace(row, field=declared.name, item=inner[0] if inner else hint)
