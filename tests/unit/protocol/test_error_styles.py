import json

import pytest

from smg.errors import ERROR_KINDS, GatewayError
from smg.protocol.error_styles import STYLES
from smg.protocol.failures import ParseFailure, RuleViolation

ANTHROPIC = STYLES["anthropic"]
# Those that Anthropic's clients tell apart.
KINDS = {
    "api_error",
    "authentication_error",
    "invalid_request_error",
    "not_found_error",
    "overloaded_error",
    "permission_error",
    "rate_limit_error",
    "request_too_large",
    "timeout_error",
}


@pytest.mark.parametrize("code", ERROR_KINDS)
def test_every_error_has_a_kind_that_anthropic_s_clients_know(code):
    error = GatewayError(code, "why")
    body = json.loads(ANTHROPIC.decided(error, "msg_1"))
    assert body == {"type": "error", "error": {"type": body["error"]["type"], "message": "why"}, "request_id": "msg_1"}
    assert body["error"]["type"] in KINDS
    assert (body["error"]["type"] in {"api_error", "overloaded_error", "timeout_error"}) == (error.status >= 500)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("model_not_found", "not_found_error"),
        ("request_body_too_large", "request_too_large"),
        ("tenant_rate_limit_exceeded", "rate_limit_error"),
        ("no_available_workers", "overloaded_error"),
        ("call_upstream_timeout", "timeout_error"),
        ("messages_not_supported", "api_error"),
        ("request_body_stalled", "invalid_request_error"),
    ],
)
def test_the_kind_follows_the_status(code, kind):
    assert json.loads(ANTHROPIC.decided(GatewayError(code, ""), ""))["error"]["type"] == kind


@pytest.mark.parametrize("failure", [ParseFailure("no JSON"), RuleViolation("max_tokens: must be at least 1, got 0")])
def test_a_request_that_is_none_is_invalid(failure):
    body = json.loads(ANTHROPIC.refused(failure, "msg_1"))
    assert body["error"] == {"type": "invalid_request_error", "message": failure.message}


@pytest.mark.parametrize(
    ("tail", "start"), [(b"", b""), (b"data: {}\n\n", b""), (b"data: {}\n", b"\n"), (b"data: {", b"\n\n")]
)
def test_a_broken_stream_ends_with_an_error_event_of_its_own(tail, start):
    end = ANTHROPIC.broken("gone", tail)
    name, data, *rest = end.removeprefix(start).decode().split("\n")
    assert end.startswith(start + b"event: error\n")
    assert (name, rest) == ("event: error", ["", ""])
    error = {"type": "error", "error": {"type": "api_error", "message": "gone"}}
    assert json.loads(data.removeprefix("data: ")) == error
