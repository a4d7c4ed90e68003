"""In whose words errors are told: OpenAI's, or Anthropic's on the routes of that API, whose clients read them.

Status, code header and the time to come back are the same in both; so is what an error means (`smg.errors`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from smg.errors import GatewayError
from smg.protocol.envelope import envelope, refusal
from smg.protocol.failures import RequestFailure
from smg.protocol.sse import broken_stream, closing

ErrorStyle = Literal["openai", "anthropic"]


class Words(NamedTuple):
    """The bodies of one style; `decided` and `refused` take the request's id too.

    `decided` is for what the gateway decided, `refused` for a request that cannot be served as it stands, and `broken`
    ends a stream that broke after some last bytes.
    """

    decided: Callable[[GatewayError, str], bytes]
    refused: Callable[[RequestFailure, str], bytes]
    broken: Callable[[str, bytes], bytes]


_OTHER_CLIENT_ERROR, _OTHER_SERVER_ERROR = "invalid_request_error", "api_error"
# What Anthropic calls the errors of a status.
_ANTHROPIC_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_LOWEST_SERVER_ERROR: Final = 500


def _anthropic_type(status: int) -> str:
    other = _OTHER_CLIENT_ERROR if status < _LOWEST_SERVER_ERROR else _OTHER_SERVER_ERROR
    return _ANTHROPIC_TYPES.get(status, other)


def _anthropic(kind: str, message: str, request_id: str | None = None) -> bytes:
    body: dict[str, object] = {"type": "error", "error": {"type": kind, "message": message}}
    if request_id:
        body["request_id"] = request_id
    return msgspec.json.encode(body)


def _anthropic_break(message: str, tail: bytes) -> bytes:
    return closing(tail) + b"event: error\ndata: " + _anthropic(_OTHER_SERVER_ERROR, message) + b"\n\n"


STYLES: Final[Mapping[ErrorStyle, Words]] = {
    "openai": Words(lambda error, _id: envelope(error), lambda failure, _id: refusal(failure), broken_stream),
    "anthropic": Words(
        lambda error, request_id: _anthropic(_anthropic_type(error.status), error.message, request_id),
        lambda failure, request_id: _anthropic(_OTHER_CLIENT_ERROR, failure.message, request_id),
        _anthropic_break,
    ),
}
