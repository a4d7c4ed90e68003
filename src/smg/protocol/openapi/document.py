"""The document: the routes that there are, joined with what is said of each, as OpenAPI 3.1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from smg import __version__
from smg.errors import ERROR_KINDS
from smg.protocol.envelope import PHRASES
from smg.protocol.error_styles import ErrorStyle
from smg.protocol.openapi.operation import (
    ANY_TEXT,
    JSON,
    NUMBER,
    TEXT,
    Access,
    Answer,
    Content,
    Described,
    Operation,
    Parameter,
)
from smg.protocol.openapi.shapes import Schema, Shapes

VERSION: Final = "3.1.0"
KEY: Final = "key"
CONTROL_PLANE: Final = "controlPlane"

Table = Mapping[tuple[str, str], Operation]
"""Descriptions by method and path, the path as the route table spells it."""

_ABOUT: Final = (
    "One endpoint in front of a fleet of inference engines. This document is made from the tables of the gateway that "
    "answers it, so it says what this gateway takes and answers with its settings.\n\n"
    "`HEAD` is answered wherever `GET` is, without a body. A path without a route is 404 `unknown_url`, a method "
    "without a route 405 `method_not_allowed`. Every answer to valid HTTP has an `x-request-id`. What a worker answers "
    "is relayed with its status, its headers and its body, and `x-smg-routed-worker-id` names the worker; an answer "
    "with `x-smg-error-code` is always the gateway's own."
)

_TEXT_BODY: Final[Content] = {TEXT: ANY_TEXT}

# Every route: what is no HTTP/1.1 never reaches it, and a fault is a fault.
_NOT_HTTP: Final = tuple(
    Answer(status, f"{what}; the connection ends.", _TEXT_BODY)
    for status, what in (
        (400, "The head of the request is no strict HTTP/1.1"),
        (414, "The request target is too long"),
        (431, "The head of the request is too large, or has too many fields"),
        (501, "The body has another transfer coding than `chunked`"),
        (505, "The version of HTTP is neither 1.0 nor 1.1"),
    )
)
# Such a request has no id.
_UNHEARD: Final = frozenset({"414", "431", "505"})
_FAULT: Final = ("internal_error",)
_BODY: Final = ("request_body_too_large",)
_ARRIVING: Final = ("request_body_aborted", "request_body_stalled")
_ADMISSION: Final = (
    "admission_queue_full",
    "admission_queue_timeout",
    "scheduler_queue_full",
    "scheduler_queue_timeout",
    "scheduler_preempted",
    "tenant_rate_limit_exceeded",
)
_CODES: Final[Mapping[str, tuple[str, ...]]] = {
    "public": _FAULT,
    "serving": (*_FAULT, *_BODY, *_ADMISSION),
    "admin": (*_FAULT, *_BODY),
}
# Codes that may come with another status than their own: that of the engine, or 504 for one that is late.
_OF_ANY_STATUS: Final = frozenset({"prefill_upstream_error"})
_LATE: Final = frozenset({"prefill_request_failed", "decode_request_failed"})
_TIMED_OUT: Final = "504"
_LEFT_TO_THE_GATEWAY: Final = frozenset({101})
_CHALLENGE: Final = {"WWW-Authenticate": "The scheme and the realm of the credential that is missing."}
_NO_KEY: Final = Answer(401, "No key that opens this route; the body is empty.", _TEXT_BODY, _CHALLENGE)
_NO_CREDENTIAL: Final = (
    Answer(401, "No credential of the control plane.", _TEXT_BODY, _CHALLENGE),
    Answer(403, "A credential of the control plane without the role `admin`.", _TEXT_BODY),
)
_CODE_HEADER: Final = "X-SMG-Error-Code"
_RETRY_AFTER: Final = "Retry-After"
_SCHEMES: Final = {
    KEY: {
        "type": "http",
        "scheme": "bearer",
        "description": "A key of the gateway or, on serving routes, of a tenant.",
    },
    CONTROL_PLANE: {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key of the control plane, or a token of its issuer, with the role `admin`.",
    },
}


class ErrorDetail(msgspec.Struct):
    type: str
    code: str
    message: str
    param: str | None


class Error(msgspec.Struct):
    """What the gateway decides itself. The code is also in the header `X-SMG-Error-Code`."""

    error: ErrorDetail


class AnthropicErrorDetail(msgspec.Struct):
    type: str
    message: str


class AnthropicError(msgspec.Struct):
    """What the gateway decides itself, and why it refuses a request, on the routes of Anthropic's API."""

    type: Literal["error"]
    error: AnthropicErrorDetail
    request_id: str


_ERRORS: Final[Mapping[ErrorStyle, type]] = {"openai": Error, "anthropic": AnthropicError}


def undescribed(routes: Iterable[Described], table: Table) -> list[str]:
    """The routes that nobody has described, as `METHOD /path`."""
    return [f"{route.method} {route.path}" for route in routes if (route.method, route.path) not in table]


def render(
    routes: Sequence[Described], table: Table, access: Access, overlays: Mapping[type, Mapping[str, Schema]]
) -> bytes:
    """The document as JSON. Raises LookupError that names the routes without a description."""
    missing = undescribed(routes, table)
    if missing:
        raise LookupError(f"no description of {', '.join(missing)}")
    shapes = Shapes(overlays)
    parameters: Schema = {}
    paths: dict[str, dict[str, Schema]] = {}
    for route in routes:
        described = _operation(route, table[route.method, route.path], access, shapes, parameters)
        paths.setdefault(route.path.replace("{*", "{"), {})[route.method.lower()] = described
    operations = [operation for methods in paths.values() for operation in methods.values()]
    responses = _shared([operation["responses"] for operation in operations])
    schemes = {name: scheme for name, scheme in _SCHEMES.items() if name in _schemes_of(access)}
    document = {
        "openapi": VERSION,
        "info": {
            "title": "smg-gateway",
            "version": __version__,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": shapes.components,
            "responses": responses,
            "parameters": parameters,
            "headers": {"RequestId": _header("The request's id: the caller's, or a new one.")},
            **({"securitySchemes": schemes} if schemes else {}),
        },
    }
    return msgspec.json.encode(document)


def _shared(places: Sequence[Schema]) -> Schema:
    """Take the responses that several operations have out of them and leave references; returns them by name."""
    found = Counter(msgspec.json.encode(part) for place in places for part in place.values())
    names: dict[bytes, str] = {}
    shared: Schema = {}
    for place in places:
        for status, part in place.items():
            text = msgspec.json.encode(part)
            if found[text] == 1:
                continue
            if text not in names:
                phrase = _phrase(status)
                alike = sum(name.rstrip("0123456789") == phrase for name in shared)
                names[text] = f"{phrase}{alike + 1}" if alike else phrase
                shared[names[text]] = part
            place[status] = {"$ref": f"#/components/responses/{names[text]}"}
    return shared


def _phrase(status: str) -> str:
    """A status as a name."""
    return "".join(PHRASES[int(status)].title().split()).replace("-", "") if status.isdecimal() else "AnyOther"


def _schemes_of(access: Access) -> set[str]:
    named = {CONTROL_PLANE} if access.control_plane else set()
    return named | {KEY} if access.serving or (access.admin and not access.control_plane) else named


def _operation(route: Described, described: Operation, access: Access, shapes: Shapes, parameters: Schema) -> Schema:
    group = route.group
    answers = [*described.answers, *_refused(group, access), *_NOT_HTTP]
    codes = [*described.codes, *_CODES[group], *(_ARRIVING if described.body is not None else ())]
    answers += _coded(codes, _ERRORS[route.errors])
    if described.relayed:
        own = dict.fromkeys(answer.status for answer in answers if answer.status not in _LEFT_TO_THE_GATEWAY)
        answers += [Answer(status, "", described.relayed) for status in own]
    operation: Schema = {
        "operationId": described.id,
        "summary": described.summary,
        "tags": [described.tag],
        "responses": _responses(answers, codes, shapes),
        "security": _security(group, access),
    }
    if described.description:
        operation["description"] = described.description
    if described.parameters:
        operation["parameters"] = [_parameter(parameter, parameters) for parameter in described.parameters]
    if described.body is not None:
        body = described.body
        operation["requestBody"] = {"required": body.required, "content": _content([body.content], shapes)}
        if body.description:
            operation["requestBody"]["description"] = body.description
    return operation


def _security(group: str, access: Access) -> list[dict[str, list[str]]]:
    if group == "serving" and access.serving:
        return [{KEY: []}]
    if group == "admin" and access.control_plane:
        return [{CONTROL_PLANE: ["admin"]}]
    return [{KEY: []}] if group == "admin" and access.admin else []


def _refused(group: str, access: Access) -> tuple[Answer, ...]:
    if group == "admin" and access.control_plane:
        return _NO_CREDENTIAL
    return (_NO_KEY,) if _security(group, access) else ()


def _coded(codes: Sequence[str], error: type) -> list[Answer]:
    """The answers with these codes, one a status, in this shape."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(ERROR_KINDS[code].status, []).append(code)
    return [
        Answer(status, f"{PHRASES[status]}: {', '.join(f'`{code}`' for code in named)}.", {JSON: error})
        for status, named in by_status.items()
    ]


def _responses(answers: Sequence[Answer], codes: Sequence[str], shapes: Shapes) -> Schema:
    by_status: dict[str, list[Answer]] = {}
    for answer in answers:
        by_status.setdefault(str(answer.status), []).append(answer)
    return {status: _response(status, by_status[status], codes, shapes) for status in sorted(by_status)}


def _response(status: str, answers: Sequence[Answer], codes: Sequence[str], shapes: Shapes) -> Schema:
    headers: Schema = {}
    for answer in answers:
        headers |= {name: _header(says) for name, says in answer.headers.items()}
    named = [code for code in codes if _may_come_with(code, status)]
    if named:
        headers[_CODE_HEADER] = _header("The code of an error of the gateway's own.", {"type": "string", "enum": named})
    if any(ERROR_KINDS[code].retry_after_secs for code in named):
        headers[_RETRY_AFTER] = _header("When to come back, in seconds.", NUMBER)
    response: Schema = {"description": " ".join(dict.fromkeys(a.description for a in answers if a.description))}
    if status not in _UNHEARD or len(answers) > 1:
        headers["X-Request-ID"] = {"$ref": "#/components/headers/RequestId"}
    if headers:
        response["headers"] = headers
    content = _content([answer.content for answer in answers], shapes)
    if content:
        response["content"] = content
    return response


def _may_come_with(code: str, status: str) -> bool:
    own = str(ERROR_KINDS[code].status)
    return status in {own, "default"} or code in _OF_ANY_STATUS or (status == _TIMED_OUT and code in _LATE)


def _content(contents: Iterable[Content], shapes: Shapes) -> Schema:
    by_type: dict[str, list[Schema]] = {}
    for content in contents:
        for media_type, kind in content.items():
            schema = dict(kind) if isinstance(kind, Mapping) else shapes.of(kind)
            known = by_type.setdefault(media_type, [])
            if schema not in known:
                known.append(schema)
    return {
        media_type: {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}
        for media_type, schemas in by_type.items()
    }


def _parameter(parameter: Parameter, shared: Schema) -> Schema:
    """A parameter; headers are shared, since a header means the same on every route."""
    made = {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.required,
        "description": parameter.description,
        "schema": parameter.schema,
    }
    if parameter.place != "header":
        return made
    shared[parameter.name] = made
    return {"$ref": f"#/components/parameters/{parameter.name}"}


def _header(says: str, schema: Mapping[str, object] = ANY_TEXT) -> Schema:
    return {"description": says, "schema": schema}
