import json

import pytest

from smg.errors import ERROR_KINDS, GatewayError, PlacementError
from smg.protocol.envelope import envelope, envelope_headers, refusal
from smg.protocol.failures import ParseFailure, RuleViolation


def test_an_envelope_has_the_reason_phrase_as_its_type():
    error = PlacementError("model_not_found", "No worker serves “x”")
    assert json.loads(envelope(error)) == {
        "error": {
            "type": "Not Found",
            "code": "model_not_found",
            "message": "No worker serves “x”",
            "param": None,
        }
    }
    assert envelope_headers(error) == [(b"x-smg-error-code", b"model_not_found")]


def test_an_envelope_names_the_parameter_at_fault():
    error = GatewayError("missing_model", "No model was named", param="model")
    assert json.loads(envelope(error))["error"]["param"] == "model"


def test_an_error_that_asks_for_patience_says_for_how_long():
    assert (b"retry-after", b"2") in envelope_headers(GatewayError("admission_queue_full", "full"))
    error = GatewayError("no_available_workers", "none", retry_after_secs=7)
    assert (b"retry-after", b"7") in envelope_headers(error)


@pytest.mark.parametrize("code", ERROR_KINDS)
def test_every_code_of_the_table_has_an_envelope_with_a_phrase(code):
    inner = json.loads(envelope(GatewayError(code, "why")))["error"]
    assert inner["code"] == code
    assert inner["type"] != "Unknown Error"


def test_a_failed_parse_and_a_violated_rule_have_openais_shape():
    assert json.loads(refusal(ParseFailure("why"))) == {
        "error": {"message": "why", "type": "invalid_request_error", "code": "json_parse_error"}
    }
    assert json.loads(refusal(RuleViolation.of(["n: too many", "__all__: odd"]))) == {
        "error": {"message": "n: too many; __all__: odd", "type": "invalid_request_error", "code": 400}
    }
