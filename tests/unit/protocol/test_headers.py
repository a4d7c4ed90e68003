import pytest

from smg.protocol.headers import DROPPED_RESPONSE_HEADERS, connection_nominated, forwarded, is_json


@pytest.mark.parametrize(
    "name",
    [
        b"authorization",
        b"anthropic-version",
        b"anthropic-beta",
        b"x-request-id",
        b"x-request-id-parent",
        b"x-correlation-id",
        b"traceparent",
        b"tracestate",
        b"x-smg-routing-key",
    ],
)
def test_a_listed_client_header_goes_to_the_worker(name):
    assert forwarded(name)


@pytest.mark.parametrize(
    "name",
    [
        b"cookie",
        b"host",
        b"content-length",
        b"x-api-key",
        b"x-request-idx",
        b"x-trace-id",
        b"request-id",
        b"x-smg-routing-tokens",
        b"x-smg-target-worker",
        b"proxy-authorization",
        b"user-agent",
        b"",
    ],
)
def test_any_other_client_header_does_not(name):
    assert not forwarded(name)


def test_a_worker_cannot_speak_for_the_gateway_nor_leave_its_hop():
    for name in (b"x-smg-error-code", b"x-smg-routed-worker-id", b"transfer-encoding", b"connection", b"te"):
        assert name in DROPPED_RESPONSE_HEADERS
    for name in (b"content-type", b"content-encoding", b"set-cookie", b"retry-after", b"server", b"date"):
        assert name not in DROPPED_RESPONSE_HEADERS


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (b"keep-alive, X-Hop", {b"keep-alive", b"x-hop"}),
        (b"close", {b"close"}),
        (b" ,X-A\t,, x-b ", {b"x-a", b"x-b"}),
        (b"", set()),
    ],
)
def test_connection_names_the_headers_of_its_hop(value, names):
    assert connection_nominated(value) == names


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"application/json", True),
        (b"application/json; charset=utf-8", True),
        (b"Application/JSON;charset=UTF-8", True),
        (b"application/json ;x", True),
        (b"text/plain", False),
        (b"application/jsonl", False),
        (b"multipart/form-data; boundary=application/json", False),
        (b"", False),
        (None, False),
    ],
)
def test_json_is_announced_by_its_media_type_alone(value, expected):
    assert is_json(value) is expected
