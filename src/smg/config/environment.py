"""Environment variables to raw texts. Variables of the prefix that name no option belong to others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from smg.config.options import Option
from smg.config.origins import Given, Origin


def read_environ(environ: Mapping[str, str], rows: Sequence[Option]) -> dict[str, Given]:
    """What the environment gives, by field. Lists are separated by commas or white space.

    An empty variable is a value like any other: it empties a list, and is a problem for everything else. A
    secret that was meant to be set must not silently be none.
    """
    return {
        row.field: Given(_texts(row, environ[row.env]), Origin("env", row.env))
        for row in rows
        if row.env in environ and not _is_service_link(row.env, environ[row.env])
    }


def _texts(row: Option, text: str) -> tuple[str, ...]:
    if not row.many:
        return (text,)
    separator = r"\s*,\s*" if row.grouped else r"[\s,]+"
    return tuple(piece for piece in re.split(separator, text.strip()) if piece)


def _is_service_link(name: str, text: str) -> bool:
    """Kubernetes tells pods where a service called `smg` is, in variables that read like a port option."""
    return name.endswith("_PORT") and text.startswith(("tcp://", "udp://", "sctp://"))
