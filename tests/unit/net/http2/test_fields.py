import pytest

from smg.net.http1.codec import MAX_HEADERS, ProtocolError
from smg.net.http2.fields import response_head, sendable

STATUS = (b":status", b"200")


def test_a_head_is_what_http1_would_have_made_of_it():
    head = response_head([STATUS, (b"content-type", b"text/event-stream"), (b"content-length", b"12"), (b"x", b" y ")])
    assert (head.status, head.content_type, head.content_length) == (200, b"text/event-stream", 12)
    assert (head.keep_alive, head.nominated, head.chunked) == (True, None, False)
    assert head.fields[-1] == (b"x", b"y", b"x:  y ")


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"x", b"y")],
        [STATUS, STATUS],
        [(b"x", b"y"), STATUS],
        [STATUS, (b":path", b"/")],
        [(b":status", b"20")],
        [(b":status", b"2x0")],
        [STATUS, (b"", b"y")],
        [STATUS, (b"X", b"y")],
        [STATUS, (b"x y", b"y")],
        [STATUS, (b"x", b"a\r\nb: c")],
        [STATUS, (b"x", b"a\0")],
        [STATUS, (b"connection", b"close")],
        [STATUS, (b"transfer-encoding", b"chunked")],
        [STATUS, (b"content-length", b"1"), (b"content-length", b"2")],
        [STATUS, (b"content-length", b"-1")],
        [STATUS, *[(b"x", b"y")] * (MAX_HEADERS + 1)],
    ],
)
def test_a_list_that_breaks_a_rule_is_no_head(headers):
    with pytest.raises(ProtocolError):
        response_head(headers)


def test_what_belongs_to_connections_of_http1_is_not_sent():
    kept = [(b":path", b"/"), (b"x", b"y")]
    dropped = [
        (name, b"v") for name in (b"connection", b"te", b"upgrade", b"host", b"keep-alive", b"transfer-encoding")
    ]
    assert sendable([*kept, *dropped]) == kept
