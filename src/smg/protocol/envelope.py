"""The two bodies of a refusal, and the headers that go with them.

What the gateway decides itself has its envelope with the status's reason phrase as type, and repeats its
code in a header, by which clients know it from a worker's error. A request that fails parsing or a rule has
OpenAI's shape without that header. Which error means what is `smg.errors`.
"""

from __future__ import annotations

from http import HTTPStatus

import msgspec

from smg.errors import GatewayError
from smg.protocol.failures import RequestFailure

ERROR_CODE_HEADER = b"x-smg-error-code"

# Python renames phrases between its versions; clients may compare them.
PHRASES = {status.value: status.phrase for status in HTTPStatus} | {
    413: "Payload Too Large",
    422: "Unprocessable Entity",
    499: "Client Closed Request",
}


def envelope(error: GatewayError) -> bytes:
    """The JSON body of an error that the gateway decided."""
    inner = {
        "type": PHRASES.get(error.status, "Unknown Error"),
        "code": error.code,
        "message": error.message,
        "param": error.param,
    }
    return msgspec.json.encode({"error": inner})


def envelope_headers(error: GatewayError) -> list[tuple[bytes, bytes]]:
    """The headers of its answer beyond content type and length: the code, and when to come back."""
    headers = [(ERROR_CODE_HEADER, error.code.encode())]
    if error.retry_after_secs > 0:
        headers.append((b"retry-after", b"%d" % error.retry_after_secs))
    return headers


def refusal(failure: RequestFailure) -> bytes:
    """The JSON body of a request that failed parsing or a rule. Its status is 400; it has no code header."""
    inner = {"message": failure.message, "type": "invalid_request_error", "code": failure.code}
    return msgspec.json.encode({"error": inner})
