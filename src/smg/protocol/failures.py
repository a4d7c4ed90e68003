"""Why a request is refused before any worker is chosen, for reasons in the request itself.

These are not rows of the gateway's error table: they have body shapes of their own, without a code
header (`envelope.py` renders the JSON of the first two). Everything the gateway decides later is a `GatewayError`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar


class RequestFailure(Exception):  # noqa: N818  "parse failure" is what the API calls it
    """A request that cannot be served as it stands. `message` is for the caller, `code` its `error.code`."""

    code: ClassVar[str | int]

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ParseFailure(RequestFailure):
    """The body is not the request that its route takes: no JSON, a wrong type, a missing member."""

    code = "json_parse_error"


class RuleViolation(RequestFailure):
    """The body is a request of its route, but a value is out of its range or two contradict each other."""

    code = 400

    @classmethod
    def of(cls, violations: Iterable[str]) -> RuleViolation:
        """One failure that reports every violation."""
        return cls("; ".join(violations))


class FormFailure(RequestFailure):
    """The body is not the form that its route takes. Answered in plain text."""

    code = 400
