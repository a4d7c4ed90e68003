"""An error that is kept, and raised again elsewhere."""

import pytest

from smg.errors import GatewayError, UpstreamError, UpstreamTimeout, once_more


@pytest.mark.parametrize(
    "error",
    [
        GatewayError("request_body_too_large", "too much", param="messages", retry_after_secs=7),
        UpstreamError("call_upstream_connection_failed", "no way"),
        UpstreamTimeout("call_upstream_timeout", "too slow"),
    ],
)
def test_the_same_error_comes_back_and_not_the_same_object(error):
    again = once_more(error)
    assert again is not error
    assert type(again) is type(error)
    assert str(again) == str(error)
    for name in ("code", "kind", "message", "param", "retry_after_secs", "retryable", "status"):
        assert getattr(again, name) == getattr(error, name)


def test_what_was_said_of_its_worker_comes_along():
    error = UpstreamError("call_upstream_connection_failed", "no way")
    error.worker, error.answered = "w", True
    assert (once_more(error).worker, once_more(error).answered) == ("w", True)


def test_no_traceback_comes_along():
    with pytest.raises(UpstreamError) as caught:
        raise UpstreamError("call_upstream_connection_failed", "no way")
    assert once_more(caught.value).__traceback__ is None
