"""The two exceptions of the control plane's answers.

Both survive pickling, because trainers hand exceptions from process to process. Trouble on the way to the gateway is
no answer, and stays the OSError that it is.
"""

from __future__ import annotations

from typing import Any

from smg.rl.results import FanoutResult

_NAMED_FAILURES = 3


class RlError(Exception):
    """The gateway answered, and not with the result that was asked for.

    `status` is the HTTP status. `code` is the answer's `error`, or `http_error` when the body has none to read (an
    authentication failure, a control plane that is off, another server's page), or `unexpected_response` when a status
    below 400 came with a body that is no result. `payload` is the body: decoded JSON, or else a text. `message` is the
    answer's explanation, if it gave one.
    """

    def __init__(self, status: int, code: str, payload: Any = None, message: str = "") -> None:
        super().__init__(status, code, payload, message)
        self.status = status
        self.code = code
        self.payload = payload
        self.message = message

    def __str__(self) -> str:
        head = f"{self.code} (HTTP {self.status})"
        return f"{head}: {self.message}" if self.message else head


class FanoutError(RlError):
    """Some workers of a fan-out failed. The others did what they were told: `result` says which did and which did not.

    `code` is `fanout_partial`, also when all of them failed.
    """

    def __init__(self, status: int, payload: Any, result: FanoutResult) -> None:
        super().__init__(status, "fanout_partial", payload, _told(result))
        self.result = result

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.payload, self.result), self.__dict__


def _told(result: FanoutResult) -> str:
    """How many failed, and the first few by name."""
    failed = result.failed
    named = [f"{row.worker_id} ({row.url}): {row.error}: {row.message}" for row in failed[:_NAMED_FAILURES]]
    more = [f"{len(failed) - _NAMED_FAILURES} more"] if len(failed) > _NAMED_FAILURES else []
    return "; ".join([f"{result.total - result.succeeded} of {result.total} workers failed", *named, *more])
