"""A request is charged its estimate, and in the end what its answer says."""

import json

import pytest

from smg.admission.tenants import TenantBudgets
from smg.config.tenant_rules import Limits, ModelRule, TenantPolicy, TenantRules
from smg.errors import GatewayError
from smg.protocol.prompt_cost import PromptCost
from smg.protocol.usage import TAIL_BYTES, Usage
from smg.services.tenant_limits import TenantLimits


class Tenant:
    """A tenant with a budget of 60 tokens, and so many requests a minute."""

    def __init__(self, requests=100, rules=()):
        self.now = 0.0
        policy = TenantPolicy(Limits(60, requests), tuple(rules))
        self.limits = TenantLimits(TenantBudgets(TenantRules(policy)), lambda: self.now)

    def charge(self, tokens=0, prompts=1, model="m"):
        return self.limits.reserve("auth:a", model, PromptCost(tokens, prompts))

    def refusal(self, tokens=0, model="m"):
        with pytest.raises(GatewayError) as caught:
            self.charge(tokens, model=model)
        assert caught.value.code == "tenant_rate_limit_exceeded"
        return caught.value

    @property
    def left(self):
        """The tokens that are left, which asking costs; below zero what is missing."""
        for tokens in range(60, -1, -1):
            try:
                self.charge(tokens)
            except GatewayError:
                continue
            return tokens
        return -1


def body(prompt=10, completion=20):
    return json.dumps({"usage": {"prompt_tokens": prompt, "completion_tokens": completion}}).encode()


def test_a_refusal_says_when_to_come_back():
    tenant = Tenant()
    tenant.charge(59)
    assert tenant.refusal(3).retry_after_secs == 2
    assert tenant.refusal(2).retry_after_secs == 1
    assert tenant.refusal(60).retry_after_secs == 59


def test_a_refusal_for_good_says_nothing():
    refusal = Tenant().refusal(61)
    assert refusal.retry_after_secs == 0
    assert (refusal.status, refusal.kind.source) == (429, "downstream")


def test_a_request_without_a_model_goes_by_the_name_of_that():
    tenant = Tenant(rules=[ModelRule("none", "exact", "unknown", Limits(5, 5))])
    tenant.refusal(6, model=None)
    tenant.charge(6)


@pytest.mark.parametrize("status", [200, 201])
def test_a_success_is_charged_what_it_used(status):
    tenant = Tenant()
    tenant.charge(5).answered(status, body())
    assert tenant.left == 30


@pytest.mark.parametrize(("status", "answer"), [(400, body()), (500, body()), (200, b"{}"), (200, b"no JSON")])
def test_what_failed_or_does_not_say_stays_as_estimated(status, answer):
    tenant = Tenant()
    tenant.charge(5).answered(status, answer)
    assert tenant.left == 55


def test_the_prompt_stays_as_estimated_where_only_the_answer_is_known():
    tenant = Tenant()
    tenant.charge(5).settle(Usage(None, 20))
    assert tenant.left == 35


def test_a_charge_is_settled_once():
    tenant = Tenant()
    charge = tenant.charge(5)
    for _ in range(3):
        charge.answered(200, body())
    assert tenant.left == 30


def test_a_batch_is_settled_for_all_its_prompts():
    tenant = Tenant()
    answers = [{"meta_info": {"prompt_tokens": n, "completion_tokens": 1}} for n in (7, 3)]
    tenant.charge(5, prompts=2).answered(200, json.dumps(answers).encode())
    assert tenant.left == 48


@pytest.mark.parametrize("size", [1, 7, 1000, TAIL_BYTES, 5 * TAIL_BYTES])
def test_a_stream_passes_as_it_is_and_is_settled_by_its_end(size):
    whole = b"data: " + b"x" * 4 * TAIL_BYTES + b"\n\ndata: " + body() + b"\n\ndata: [DONE]\n\n"
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    tenant = Tenant()
    charge = tenant.charge(5)
    seen = []
    write = charge.tap(seen.append)
    for piece in pieces:
        write(piece)
        assert len(charge._tail) <= 2 * TAIL_BYTES
    assert seen == pieces
    charge.ended()
    assert tenant.left == 30


def test_a_stream_that_does_not_end_stays_as_estimated():
    tenant = Tenant()
    tenant.charge(5).tap(lambda _piece: None)(b"data: " + body())
    assert tenant.left == 55
