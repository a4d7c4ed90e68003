"""What a control request says in its URL: the engine's path, the engine's query, and the selector.

Paths are percent-decoded before they are checked, and only plain characters pass, so that an engine never sees a path
that could mean something else there. The query is the engine's and stays as it was spelled; only `selector` is ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeVar
from urllib.parse import unquote, unquote_plus

from smg.control.rl.refusals import Refusal, RepeatedSelector
from smg.protocol.selectors import Selector, SelectorError, parse_selector

MAX_SEGMENTS: Final = 4
_SEGMENT: Final = re.compile(r"[A-Za-z0-9._-]+")
_DOTS: Final = frozenset({".", ".."})
_SELECTOR: Final = "selector"
_LONGEST_KEPT: Final = 256
_MOST_KEPT: Final = 256

T = TypeVar("T")


def _remembered(read: Callable[[str], T]) -> Callable[[str], T]:
    """A trainer says the same again and again, so what a short text says is kept."""
    kept = lru_cache(_MOST_KEPT)(read)

    def remember(text: str) -> T:
        return kept(text) if len(text) <= _LONGEST_KEPT else read(text)

    return remember


@_remembered
def engine_path(raw: str) -> str:
    """The engine's path, without a leading slash. Raises Refusal.

    One to four segments of letters, digits, dots, underscores and hyphens; none is a dot or two.
    """
    path = unquote(raw).removeprefix("/")
    segments = path.split("/")
    if len(segments) > MAX_SEGMENTS:
        raise _bad_path(f"it has more than {MAX_SEGMENTS} segments")
    for segment in segments:
        if not segment:
            raise _bad_path("it has an empty segment")
        if segment in _DOTS:
            raise _bad_path(f"`{segment}` is no segment")
        if not _SEGMENT.fullmatch(segment):
            raise _bad_path("a segment has only letters, digits, `.`, `_` and `-`")
    return path


@_remembered
def engine_query(raw: str) -> str:
    """The query without its selectors, byte for byte."""
    return "&".join([pair for pair in raw.split("&") if _name(pair) != _SELECTOR])


@_remembered
def selector_text(raw: str) -> str:
    """The one selector of a query. Raises Refusal if it is missing or blank, RepeatedSelector if there are several."""
    found = [pair.partition("=")[2] for pair in raw.split("&") if _name(pair) == _SELECTOR]
    if len(found) > 1:
        raise RepeatedSelector
    text = unquote_plus(found[0]) if found else ""
    if not text.strip():
        raise Refusal("selector_required", "a fan-out needs a `selector` that says which workers it is for")
    return text


@_remembered
def selector_of(text: str) -> Selector:
    """The selector that a text spells. Raises Refusal."""
    try:
        return parse_selector(text)
    except SelectorError as error:
        raise Refusal("invalid_selector", str(error), offset=error.offset) from None


def _name(pair: str) -> str:
    return unquote_plus(pair.partition("=")[0])


def _bad_path(reason: str) -> Refusal:
    return Refusal("invalid_engine_path", f"not an engine path: {reason}")
