"""What the control plane refuses, or could not do: `{"error", "message"}` and the members that go with the code.

The codes are the control plane's own contract and a table of their own; requests for inference never see them.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import msgspec

STATUSES: Final = {
    "invalid_engine_path": HTTPStatus.BAD_REQUEST,
    "selector_required": HTTPStatus.BAD_REQUEST,
    "invalid_selector": HTTPStatus.BAD_REQUEST,
    "no_workers_match": HTTPStatus.BAD_REQUEST,
    "worker_not_found": HTTPStatus.NOT_FOUND,
    "unsupported_connection_mode": HTTPStatus.UNPROCESSABLE_ENTITY,
    "upstream_unreachable": HTTPStatus.BAD_GATEWAY,
    "upstream_timeout": HTTPStatus.GATEWAY_TIMEOUT,
}
"""What each code answers a call with."""


class Refusal(Exception):  # noqa: N818  it is an answer
    """A request that ends with a code of `STATUSES`. `context` are the members beside code and message."""

    def __init__(self, code: str, message: str, **context: str | int) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.context = context

    @property
    def status(self) -> int:
        return STATUSES[self.code].value

    @property
    def body(self) -> bytes:
        return msgspec.json.encode({"error": self.code, "message": self.message, **self.context})


class RepeatedSelector(Exception):  # noqa: N818  the same
    """A request names more than one selector. There is no telling which one is meant."""
