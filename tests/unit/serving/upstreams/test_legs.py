import pytest

from smg.errors import UpstreamError, UpstreamTimeout
from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.statuses import status_rules
from smg.fleet.worker import Worker
from smg.serving.upstreams.legs import LegError, LegTimeout, failure, host_of


def worker(url="http://w:8000", **fields):
    return Worker("w", url, url, Breaker(BreakerOptions()), **fields)


def refused(status, **fields):
    return LegError("prefill_upstream_error", worker(**fields), "no", status, answered=True)


@pytest.mark.parametrize(
    ("url", "host"),
    [("http://10.0.0.1:8000", "10.0.0.1"), ("http://w.example", "w.example"), ("https://[::1]:8000/base", "[::1]")],
)
def test_a_host_is_spelled_as_in_a_url(url, host):
    assert host_of(worker(url)) == host


def test_what_an_engine_said_is_the_status_and_tells_whether_to_try_again():
    assert [refused(status).status for status in (400, 429, 503)] == [400, 429, 503]
    assert [refused(status).retryable for status in (400, 429, 503)] == [False, True, True]


def test_a_worker_s_own_list_of_statuses_decides():
    rules = status_rules([418], None)
    assert refused(418, statuses=rules).retryable
    assert not refused(503, statuses=rules).retryable


@pytest.mark.parametrize("leg", ["prefill", "decode"])
def test_a_failure_of_the_way_names_the_leg(leg):
    lost = failure(leg, worker(), UpstreamError("call_upstream_connection_failed", "refused"))
    assert (lost.code, lost.status, lost.retryable, lost.answered) == (f"{leg}_request_failed", 502, True, False)
    assert lost.message == f"the {leg} worker failed: refused"


def test_a_deadline_stays_one():
    late = failure("decode", worker(), UpstreamTimeout("call_upstream_timeout", "late"))
    assert isinstance(late, LegTimeout)
    assert isinstance(late, UpstreamTimeout)
    assert (late.code, late.status, late.retryable) == ("decode_request_failed", 504, True)


def test_an_answer_that_is_too_large_keeps_its_code():
    large = failure("prefill", worker(), UpstreamError("upstream_response_too_large", "too large"))
    assert (large.code, large.status) == ("upstream_response_too_large", 502)
