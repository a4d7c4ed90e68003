"""The words in which a route is described: one `Operation` a route, made of values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from smg.protocol.error_styles import ErrorStyle

Content = Mapping[str, object]
"""What a body may be: media type -> a type of the code, or a JSON Schema that is ready."""

JSON: Final = "application/json"
TEXT: Final = "text/plain"
EVENTS: Final = "text/event-stream"
FORM: Final = "multipart/form-data"
ANYTHING: Final = "*/*"

NO_HEADERS: Final[Mapping[str, str]] = {}
NOTHING: Final[Content] = {}
ANY_VALUE: Final[Mapping[str, object]] = {}
ANY_TEXT: Final[Mapping[str, object]] = {"type": "string"}
NUMBER: Final[Mapping[str, object]] = {"type": "integer", "minimum": 0}


class Parameter(NamedTuple):
    """Something that a request says outside its body."""

    name: str
    place: Literal["path", "query", "header"]
    description: str
    schema: Mapping[str, Any] = ANY_TEXT
    required: bool = False


class Answer(NamedTuple):
    """One way in which a route answers. `status` is a code, or `default` for those that no other answer names.

    Several answers may share a status. `headers` are those that matter, by name, with what they say.
    """

    status: int | Literal["default"]
    description: str
    content: Content = NOTHING
    headers: Mapping[str, str] = NO_HEADERS


class Body(NamedTuple):
    """What a route takes."""

    content: Content
    required: bool = True
    description: str = ""


class Operation(NamedTuple):
    """One route. `id` is unique.

    `answers` are the route's own; those that its group of routes has in common are added. `codes` are the rows of
    `ERROR_KINDS` that it may answer with beside those of its group. `relayed` is what may come with any status,
    because somebody behind the gateway says it.
    """

    id: str
    summary: str
    tag: str
    answers: tuple[Answer, ...]
    codes: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    description: str = ""
    relayed: Content = NOTHING


class Access(NamedTuple):
    """Which credentials the gateway asks for: on serving routes, on admin routes, and whether the control plane has
    credentials of its own.
    """

    serving: bool = False
    admin: bool = False
    control_plane: bool = False


class Described(NamedTuple):
    """A route that there is, in the spelling of its table: `{*name}` is the rest of a path. Its errors are told in the
    style `errors`.
    """

    method: str
    path: str
    group: str
    errors: ErrorStyle = "openai"
