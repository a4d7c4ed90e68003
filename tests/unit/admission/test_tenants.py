"""Tenants spend what they have, in every scope that holds for a request, and nobody else's."""

from hypothesis import given
from hypothesis import strategies as st

from smg.admission.tenants import Denied, Reservation, TenantBudgets
from smg.config.tenant_rules import Limits, ModelRule, TenantPolicy, TenantRules

MANY = Limits(10**6, 10**6)


def budgets(default, rules=(), most_tenants=10, **tenants):
    """Budgets whose tenants are named by keyword, each with its limits."""
    named = {f"auth:{name}": TenantPolicy(limits) for name, limits in tenants.items()}
    return TenantBudgets(TenantRules(TenantPolicy(default, tuple(rules)), named), most_tenants)


def admitted(book, tenant, tokens=0, model="m", now=0.0):
    return isinstance(book.reserve(tenant, model, tokens, now), Reservation)


def test_requests_are_counted_and_flow_back_within_the_minute():
    book = budgets(Limits(1000, 2))
    assert [admitted(book, "auth:a") for _ in range(3)] == [True, True, False]
    assert book.reserve("auth:a", "m", 0, 0.0) == Denied(30.0)
    assert not admitted(book, "auth:a", now=29.9)
    assert admitted(book, "auth:a", now=30.0)


def test_tokens_are_counted_and_flow_back_within_the_minute():
    book = budgets(Limits(60, 1000))
    assert admitted(book, "auth:a", 50)
    assert book.reserve("auth:a", "m", 20, 0.0) == Denied(10.0)
    assert admitted(book, "auth:a", 10)
    assert admitted(book, "auth:a", 5, now=5.0)


def test_what_exceeds_the_whole_budget_will_never_be_affordable():
    assert budgets(Limits(100, 10)).reserve("auth:a", "m", 101, 0.0) == Denied(None)


def test_a_denied_request_is_charged_nothing():
    book = budgets(Limits(100, 1))
    admitted(book, "auth:a", 40)
    for _ in range(5):
        assert not admitted(book, "auth:a", 60)
    assert admitted(book, "auth:a", 60, now=60.0)


def test_tenants_have_budgets_of_their_own_and_some_their_own_limits():
    book = budgets(Limits(1000, 1), rich=Limits(1000, 3))
    assert [admitted(book, "ip:1") for _ in range(2)] == [True, False]
    assert admitted(book, "ip:2")
    assert [admitted(book, "auth:rich") for _ in range(4)] == [True, True, True, False]


def test_the_difference_is_settled_once_on_tokens_only():
    book = budgets(Limits(60, 2))
    reservation = book.reserve("auth:a", "m", 10, 0.0)
    reservation.settle(40, 0.0)
    reservation.settle(1000, 0.0)
    assert book.reserve("auth:a", "m", 21, 0.0) == Denied(1.0)
    assert admitted(book, "auth:a", 20)


def test_an_answer_cheaper_than_reserved_gives_tokens_back():
    book = budgets(Limits(60, 10))
    book.reserve("auth:a", "m", 50, 0.0).settle(5, 0.0)
    assert admitted(book, "auth:a", 55)


def test_a_debt_holds_back_even_requests_without_a_price():
    book = budgets(Limits(60, 10))
    book.reserve("auth:a", "m", 10, 0.0).settle(90, 0.0)
    assert book.reserve("auth:a", "m", 0, 0.0) == Denied(30.0)
    assert admitted(book, "auth:a", 0, now=30.0)


def test_a_model_rule_holds_beside_the_tenant_s_limits_and_both_must_suffice():
    rule = ModelRule("big", "prefix", "big-", Limits(100, 2))
    book = budgets(Limits(1000, 3), [rule])
    assert [admitted(book, "auth:a", model="big-1") for _ in range(3)] == [True, True, False]
    assert [admitted(book, "auth:a", model="small") for _ in range(2)] == [True, False]
    assert book.reserve("auth:b", "big-1", 200, 0.0) == Denied(None)
    assert admitted(book, "auth:b", 200, model="small")


def test_a_settlement_reaches_every_scope_of_its_request():
    rule = ModelRule("big", "exact", "big", Limits(60, 10))
    book = budgets(Limits(600, 10), [rule])
    book.reserve("auth:a", "big", 10, 0.0).settle(60, 0.0)
    assert book.reserve("auth:a", "big", 1, 0.0) == Denied(1.0)
    assert book.reserve("auth:a", "small", 541, 0.0) == Denied(0.1)


def test_the_wait_is_the_longest_of_all_scopes():
    rule = ModelRule("big", "exact", "big", Limits(1000, 1))
    book = budgets(Limits(60, 10), [rule])
    book.reserve("auth:a", "big", 60, 0.0)
    assert book.reserve("auth:a", "big", 30, 0.0) == Denied(60.0)
    assert book.reserve("auth:a", "small", 30, 0.0) == Denied(30.0)


def test_the_tenant_that_was_away_longest_is_forgotten_first():
    book = budgets(Limits(1000, 1), most_tenants=2, rich=Limits(1000, 1))
    assert admitted(book, "auth:rich")
    for tenant in ("ip:1", "ip:2"):
        assert admitted(book, tenant)
    assert not admitted(book, "ip:1")
    assert admitted(book, "ip:3")
    assert not admitted(book, "ip:1")
    assert admitted(book, "ip:2")
    assert not admitted(book, "auth:rich")


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 40), st.integers(0, 90), st.booleans()), min_size=1, max_size=60
    )
)
def test_reservations_never_exceed_what_has_flowed_in(steps):
    """With every answer as large as reserved, a minute's tokens and what flows in since are all there is."""
    book = budgets(Limits(120, 30))
    now, spent, requests, debt = 0.0, 0, 0, 0
    for wait, tokens, extra, settles in steps:
        now += wait
        reservation = book.reserve("auth:a", "m", tokens, now)
        if isinstance(reservation, Denied):
            continue
        spent += tokens
        requests += 1
        assert spent + debt <= 120 + 2 * now + 1e-6
        assert requests <= 30 + now / 2 + 1e-6
        if settles:
            reservation.settle(tokens + extra, now)
            debt += extra
