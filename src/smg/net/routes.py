"""Routes: which handler answers which method and path, and in which group of filters.

Lookup of a fixed path is one dict access; templates such as `/workers/{id}` are tried after that, all by one pattern.
A template may end in `{*name}`, which stands for the rest of the path, whatever it is.
"""

from __future__ import annotations

import re
from asyncio import iscoroutinefunction
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from smg.net.exchange import Exchange
from smg.protocol.error_styles import STYLES, ErrorStyle, Words

Group = Literal["public", "serving", "admin"]
# A handler that never waits is a plain function and runs inline; one that waits gets a task.
Handler = Callable[[Exchange], Coroutine[Any, Any, None] | None]


# Of paths that templates match, those that are asked for again and again, as those of control calls are.
_MOST_REMEMBERED = 256
_LONGEST_REMEMBERED = 256


class Route(NamedTuple):
    """One row of the route table.

    `id_prefix` begins the request ids generated on this route, and errors are told in the style `errors`. `waits` says
    that the handler is a coroutine function and gets a task; the route table finds out. One that only says that nothing
    is there is not `described` to clients.
    """

    method: str
    path: str
    handler: Handler
    group: Group = "public"
    id_prefix: str = "req-"
    waits: bool = False
    errors: ErrorStyle = "openai"
    described: bool = True


def words_of(exchange: Exchange) -> Words:
    """In which words errors of an exchange are told."""
    return STYLES[exchange.route.errors if exchange.route is not None else "openai"]


class RouteTable:
    """All routes of a listener."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._fixed: dict[str, dict[str, Route]] = {}
        by_template: dict[str, dict[str, Route]] = {}
        for route in (r._replace(waits=iscoroutinefunction(r.handler)) for r in routes):
            table = by_template if "{" in route.path else self._fixed
            methods = table.setdefault(route.path, {})
            if route.method in methods:
                raise ValueError(f"two routes for {route.method} {route.path}")
            methods[route.method] = route
            if route.method == "GET":
                methods.setdefault("HEAD", route)
        # One pattern for all templates. Each is a group with its parameters as groups in it, known by its number.
        self._templates: dict[int, _Template] = {}
        patterns = []
        number = 1
        for path, methods in by_template.items():
            template = self._templates[number] = _Template(methods, _names(path))
            number += 1 + len(template.names)
            patterns.append(_pattern(path))
        self._any_template = re.compile("|".join(patterns), re.DOTALL)
        self._remembered = lru_cache(_MOST_REMEMBERED)(self._by_template)

    def methods(self, path: str) -> tuple[dict[str, Route], dict[str, str]]:
        """The routes at a path by method (HEAD is served by GET), and what the template matched; empty if unknown."""
        found = self._fixed.get(path)
        if found is not None:
            return found, {}
        methods, params = self._remembered(path) if len(path) <= _LONGEST_REMEMBERED else self._by_template(path)
        return methods, dict(params)

    def _by_template(self, path: str) -> tuple[dict[str, Route], dict[str, str]]:
        match = self._any_template.fullmatch(path)
        if match is None or match.lastindex is None:
            return {}, {}
        template = self._templates[match.lastindex]  # the group that ended last, which is the outer one
        values = match.groups()[match.lastindex :]
        return template.methods, dict(zip(template.names, values, strict=False))

    def __iter__(self) -> Iterator[Route]:
        for methods in [*self._fixed.values(), *(template.methods for template in self._templates.values())]:
            yield from (route for method, route in methods.items() if method == route.method)


class _Template(NamedTuple):
    """The routes at a path with parameters, and how these are called."""

    methods: dict[str, Route]
    names: tuple[str, ...]


def _names(path: str) -> tuple[str, ...]:
    """The parameters of a template."""
    return tuple([segment.strip("{*}") for segment in path.split("/") if segment.startswith("{")])


def _pattern(path: str) -> str:
    """A template as a group of a pattern, with a group for each of its parameters: a segment, or the rest."""
    return f"({'/'.join(map(_segment_pattern, path.split('/')))})"


def _segment_pattern(segment: str) -> str:
    if segment.startswith("{*"):
        return "(.*)"
    return "([^/]+)" if segment.startswith("{") else re.escape(segment)
