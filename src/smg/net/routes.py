"""Routes: which handler answers which method and path, and in which group of filters.

Lookup of a fixed path is one dict access; templates such as `/workers/{id}` are tried after that, segment by segment.
A template may end in `{*name}`, which stands for the rest of the path, whatever it is.
"""

from __future__ import annotations

from asyncio import iscoroutinefunction
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, Literal, NamedTuple

from smg.net.exchange import Exchange
from smg.protocol.error_styles import STYLES, ErrorStyle, Words

Group = Literal["public", "serving", "admin"]
# A handler that never waits is a plain function and runs inline; one that waits gets a task.
Handler = Callable[[Exchange], Coroutine[Any, Any, None] | None]


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
        self._templates: list[tuple[list[str], dict[str, Route]]] = []
        by_template: dict[str, dict[str, Route]] = {}
        for route in (r._replace(waits=iscoroutinefunction(r.handler)) for r in routes):
            table = by_template if "{" in route.path else self._fixed
            methods = table.setdefault(route.path, {})
            if route.method in methods:
                raise ValueError(f"two routes for {route.method} {route.path}")
            methods[route.method] = route
            if route.method == "GET":
                methods.setdefault("HEAD", route)
        for path, methods in by_template.items():
            self._templates.append((path.split("/"), methods))

    def methods(self, path: str) -> tuple[dict[str, Route], dict[str, str]]:
        """The routes at a path by method (HEAD is served by GET), and what the template matched; empty if unknown."""
        found = self._fixed.get(path)
        if found is not None:
            return found, {}
        segments = path.split("/")
        for template, methods in self._templates:
            params = _match(template, segments)
            if params is not None:
                return methods, params
        return {}, {}

    def __iter__(self) -> Iterator[Route]:
        for methods in [*self._fixed.values(), *(m for _, m in self._templates)]:
            yield from (route for method, route in methods.items() if method == route.method)


def _match(template: list[str], segments: list[str]) -> dict[str, str] | None:
    params = {}
    if template[-1].startswith("{*"):
        last = len(template) - 1
        if len(segments) <= last:
            return None
        params[template[last][2:-1]] = "/".join(segments[last:])
        template, segments = template[:last], segments[:last]
    if len(template) != len(segments):
        return None
    for expected, segment in zip(template, segments, strict=True):
        if expected.startswith("{"):
            if not segment:
                return None
            params[expected[1:-1]] = segment
        elif expected != segment:
            return None
    return params
