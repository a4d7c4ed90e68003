import pytest

from smg.errors import UpstreamError
from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.registry import Registry
from smg.fleet.statuses import status_rules
from smg.fleet.worker import Worker
from smg.protocol.requests import ChatRequest
from smg.serving.accounts import CallAccounts
from smg.serving.call import Call, Endpoint
from smg.serving.verdicts import Verdicts
from smg.telemetry.metrics import Metrics

CHAT = Endpoint("chat", "/v1/chat/completions", ChatRequest)


class Court:
    """Verdicts on one worker."""

    def __init__(self, **fields):
        self.metrics = Metrics()
        registry = Registry()
        self.worker = Worker("a", "http://a", "http://a", Breaker(BreakerOptions()), **fields)
        registry.add(self.worker)
        self.verdicts = Verdicts(CallAccounts(self.metrics, registry, lambda *_: "random"), lambda: 0.0)
        self.call = self.new_call()

    def new_call(self):
        return Call(CHAT, b"{}", "m", "m")

    @property
    def heard(self):
        """(successes, failures)"""
        found = {labels[1]: child.value for labels, child in self.metrics.worker_cb_outcomes.recorded()}
        return found.get("success", 0), found.get("failure", 0)


@pytest.fixture
def court():
    return Court()


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504])
def test_some_statuses_speak_against_a_worker(court, status):
    court.verdicts.judge(court.call, court.worker, status)
    assert court.heard == (0, 1)
    assert court.worker.breaker.failures == 1


@pytest.mark.parametrize("status", [200, 204, 302, 400, 404, 422, 501])
def test_most_speak_for_it(court, status):
    court.worker.breaker.failed(0.0)
    court.verdicts.judge(court.call, court.worker, status)
    assert court.heard == (1, 0)
    assert court.worker.breaker.failures == 0


def test_too_many_requests_says_nothing(court):
    court.verdicts.judge(court.call, court.worker, 429)
    assert court.heard == (0, 0)


def test_a_worker_s_own_lists_go_before():
    court = Court(statuses=status_rules([418], [503]))
    for status in (418, 503):
        court.verdicts.judge(court.call, court.worker, status)
    assert court.heard == (0, 1)


def test_one_call_charges_a_worker_once_and_the_next_call_again(court):
    for _ in range(3):
        court.verdicts.bad(court.call, court.worker)
    assert court.heard == (0, 1)
    court.verdicts.bad(court.new_call(), court.worker)
    assert court.heard == (0, 2)


def test_one_call_may_charge_several_workers(court):
    court.verdicts.bad(court.call, court.worker)
    other = Worker("b", "http://b", "http://b", Breaker(BreakerOptions()))
    court.verdicts.bad(court.call, other)
    assert court.call.charged == (court.worker, other)
    assert other.breaker.failures == 1


def test_a_way_that_failed_speaks_against_the_worker_unless_the_client_caused_it(court):
    court.verdicts.failed(court.call, court.worker, UpstreamError("call_upstream_timeout", "late"))
    assert court.heard == (0, 1)
    court.verdicts.failed(court.new_call(), court.worker, UpstreamError("request_body_aborted", "the client left"))
    assert court.heard == (0, 1)


@pytest.mark.parametrize(("code", "heard"), [("prefill_bad_request", (1, 0)), ("prefill_unavailable", (0, 1))])
def test_an_error_that_the_worker_answered_is_judged_as_an_answer(court, code, heard):
    error = UpstreamError(code, "no")
    error.answered = True
    court.verdicts.failed(court.call, court.worker, error)
    assert court.heard == heard
