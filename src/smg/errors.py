"""The error tree of the gateway, and the one table of codes it can answer with.

    GatewayError                 carries a code of the table; rendered in one place, `edge/front.py`
    ├── Unauthorized             no credential that opens the route; answered without an envelope
    ├── Forbidden                a credential that does not open this route; the same
    ├── PlacementError           no worker can take the request
    └── UpstreamError            a worker or the way to it failed
        └── UpstreamTimeout      it did not answer within its deadline

`ConfigError` stands apart: it is raised before there is a gateway, and names every problem at once.

What each code means to a client is the OpenAI-compatible API's error contract; whether the dispatch loop may try again
is the `retryable` column. Subclasses exist only where somebody catches them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar

Source = Literal["downstream", "upstream", "gateway"]


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """What a code stands for.

    `status` is the HTTP status, `source` says who is at fault, `retryable` whether another attempt may help, and
    `retry_after_secs` is the Retry-After header to send (0 = none, the error may bring its own).
    """

    status: int
    source: Source
    retryable: bool = False
    retry_after_secs: int = 0


ERROR_KINDS: dict[str, ErrorKind] = {
    # The request itself.
    "request_body_aborted": ErrorKind(400, "downstream"),
    "unauthorized": ErrorKind(401, "downstream"),
    "forbidden": ErrorKind(403, "downstream"),
    "missing_model": ErrorKind(400, "downstream"),
    "unknown_url": ErrorKind(404, "downstream"),
    # Of calls to POST /v1/realtime/calls, beside a missing model.
    "invalid_content_type": ErrorKind(400, "downstream"),
    "invalid_multipart": ErrorKind(400, "downstream"),
    "malformed_multipart": ErrorKind(400, "downstream"),
    "missing_sdp": ErrorKind(400, "downstream"),
    "invalid_sdp": ErrorKind(400, "downstream"),
    "invalid_session_json": ErrorKind(400, "downstream"),
    "model_not_found": ErrorKind(404, "downstream"),
    "method_not_allowed": ErrorKind(405, "downstream"),
    "request_body_stalled": ErrorKind(408, "downstream"),
    "request_body_too_large": ErrorKind(413, "downstream"),
    # Admission.
    "admission_queue_full": ErrorKind(429, "gateway", retry_after_secs=2),
    "admission_queue_timeout": ErrorKind(503, "gateway", retry_after_secs=2),
    "scheduler_queue_full": ErrorKind(429, "gateway", retry_after_secs=2),
    "scheduler_queue_timeout": ErrorKind(503, "gateway", retry_after_secs=2),
    "scheduler_preempted": ErrorKind(503, "gateway", retry_after_secs=1),
    # Nobody is there to see it; it is what the log says.
    "scheduler_client_cancelled": ErrorKind(499, "downstream"),
    "tenant_rate_limit_exceeded": ErrorKind(429, "downstream"),
    # Placement. A worker may come back while the request waits for its next attempt.
    "no_available_workers": ErrorKind(503, "gateway", retryable=True, retry_after_secs=1),
    "no_workers": ErrorKind(503, "gateway"),
    # Nobody speaks realtime for the model, or nobody who does may take a session now.
    "service_unavailable": ErrorKind(503, "gateway"),
    # Known only once a worker is chosen: others may be able to.
    "unsupported_decisions_request": ErrorKind(400, "downstream"),
    "decisions_not_supported": ErrorKind(501, "gateway"),
    "audio_transcriptions_not_supported": ErrorKind(501, "gateway"),
    "responses_not_supported": ErrorKind(501, "gateway"),
    "messages_not_supported": ErrorKind(501, "gateway"),
    "count_tokens_not_supported": ErrorKind(501, "gateway"),
    "interactions_not_supported": ErrorKind(501, "gateway"),
    "dp_aware_not_supported": ErrorKind(400, "gateway"),
    "no_compatible_pd_pair": ErrorKind(503, "gateway"),
    # Trying again at once would only add to the load; the Retry-After is the time to the next load reports.
    "worker_overload_protection_shed": ErrorKind(503, "gateway", retry_after_secs=10),
    # The way to a worker, and its answer.
    "call_upstream_connection_failed": ErrorKind(500, "upstream", retryable=True),
    "call_upstream_request_error": ErrorKind(500, "upstream", retryable=True),
    "call_upstream_timeout": ErrorKind(504, "upstream", retryable=True),
    "read_response_body_failed": ErrorKind(500, "upstream", retryable=True),
    "upstream_response_too_large": ErrorKind(502, "upstream", retryable=True),
    "invalid_decisions_response": ErrorKind(502, "upstream", retryable=True),
    "realtime_request_failed": ErrorKind(502, "upstream"),
    # One leg of a prefill/decode pair; an engine that answered gives the answer its own status.
    "prefill_request_failed": ErrorKind(502, "upstream", retryable=True),
    "prefill_bad_request": ErrorKind(400, "upstream"),
    "prefill_internal_error": ErrorKind(500, "upstream", retryable=True),
    "prefill_unavailable": ErrorKind(503, "upstream", retryable=True),
    "prefill_upstream_error": ErrorKind(502, "upstream", retryable=True),
    "decode_request_failed": ErrorKind(502, "upstream", retryable=True),
    # What cannot be done in two halves.
    "embeddings_not_supported": ErrorKind(501, "downstream"),
    "classify_not_supported": ErrorKind(501, "downstream"),
    # A fault of our own.
    "internal_error": ErrorKind(500, "gateway"),
}


class GatewayError(Exception):
    """A failure the gateway answers itself, with a code of `ERROR_KINDS`.

    `message` is for the caller and names what was wrong; it never holds a secret. `param` names the offending
    field, if one does. `retry_after_secs` overrides the table's value.
    """

    __slots__ = ("code", "kind", "message", "param", "retry_after_secs")

    def __init__(self, code: str, message: str, *, param: str | None = None, retry_after_secs: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.kind = ERROR_KINDS[code]
        self.message = message
        self.param = param
        self.retry_after_secs = retry_after_secs or self.kind.retry_after_secs

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return self.kind.status

    @property
    def retryable(self) -> bool:
        """Whether another attempt may help."""
        return self.kind.retryable


class Unauthorized(GatewayError):  # noqa: N818  the status's own name
    """The caller brought no credential that opens the route. The answer has no body unless there is a `reason`."""

    def __init__(self, reason: str = "", realm: str = "smg") -> None:
        super().__init__("unauthorized", reason)
        self.realm = realm


class Forbidden(GatewayError):  # noqa: N818  the status's own name
    """The caller is known, and may not do this. The answer is the reason, in plain text."""

    def __init__(self, reason: str) -> None:
        super().__init__("forbidden", reason)


class PlacementError(GatewayError):
    """No worker can take the request: its model is unknown, or nobody who serves it is available."""


class UpstreamError(GatewayError):
    """A worker, or the way to it, failed before it answered in full. `worker` says which, where there are several;
    `answered` that it is the worker itself that says so.
    """

    worker: object = None
    answered: bool = False


class UpstreamTimeout(UpstreamError):  # noqa: N818  the field calls it a timeout
    """A worker did not answer within its deadline."""


E = TypeVar("E", bound=GatewayError)


def once_more(error: E) -> E:
    """The same error to raise in the place of one that is kept, whose traceback would keep whoever meets it."""
    copy = type(error).__new__(type(error))
    GatewayError.__init__(copy, error.code, error.message, param=error.param, retry_after_secs=error.retry_after_secs)
    vars(copy).update(vars(error))
    return copy


class ConfigError(Exception):
    """A start was refused. `problems` holds one sentence each, naming the flag it is about."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems
