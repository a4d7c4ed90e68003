"""Tenant rate limits: what each tenant may still use up, in tokens and requests, over all models and for some of them.

A request reserves what it will cost as far as that is known, before it is sent anywhere: one request and the tokens
of its prompt. It is admitted if every scope that holds for it can afford that: the tenant's own, and that of the one
model rule that matches. When the answer has said what was really used, the difference is settled, once; that may leave
a debt, which later requests wait for. What is never settled stays as it was reserved.

Budgets refill continuously and start full. Tenants with a policy of their own keep theirs for good. All others, who may
be as many as there are addresses, share a bounded table: the tenant that has been away longest is forgotten first, and
begins anew when it returns. Within a minute a budget without debt is full anyway, so nothing is lost unless more
tenants call within that time than the table holds.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from smg.admission.bucket import TokenBucket
from smg.config.tenant_rules import Limits, TenantPolicy, TenantRules

MOST_TENANTS: Final = 10_000
"""How many tenants without a policy of their own are remembered; a few kilobytes each."""

_MINUTE_SECS: Final = 60


class Budget:
    """What is left of one scope's tokens and requests."""

    __slots__ = ("requests", "tokens")

    def __init__(self, limits: Limits, now: float) -> None:
        self.tokens = TokenBucket(limits.tokens_per_minute, limits.tokens_per_minute / _MINUTE_SECS, now)
        self.requests = TokenBucket(limits.requests_per_minute, limits.requests_per_minute / _MINUTE_SECS, now)

    def wait_secs(self, tokens: int, now: float) -> float | None:
        """How long until so many tokens and a request can be afforded; None if they never can."""
        tokens_secs = self.tokens.wait_secs(tokens, now)
        requests_secs = self.requests.wait_secs(1, now)
        if tokens_secs is None or requests_secs is None:
            return None
        return max(tokens_secs, requests_secs)

    def reserve(self, tokens: int, now: float) -> None:
        self.tokens.spend(tokens, now)
        self.requests.spend(1, now)


class Reservation:
    """What a request has been charged."""

    __slots__ = ("_budgets", "tokens")

    def __init__(self, budgets: tuple[Budget, ...], tokens: int) -> None:
        self._budgets = budgets
        self.tokens = tokens

    def settle(self, tokens: int, now: float) -> None:
        """The request has really used so many tokens, prompt and answer. Counts the first time only."""
        for budget in self._budgets:
            budget.tokens.spend(tokens - self.tokens, now)
        self._budgets = ()


class Denied(NamedTuple):
    """The budget does not suffice for a request; it will in `wait_secs`, or never if that is None."""

    wait_secs: float | None


class _Tenant:
    """A tenant's policy, and its budgets as far as they are in use."""

    __slots__ = ("_by_rule", "_policy", "_whole")

    def __init__(self, policy: TenantPolicy, now: float) -> None:
        self._policy = policy
        self._whole = Budget(policy.limits, now)
        self._by_rule: dict[str, Budget] = {}

    def budgets(self, model: str, now: float) -> tuple[Budget, ...]:
        """The budgets that a request for a model draws on."""
        rule = self._policy.rule_for(model)
        if rule is None:
            return (self._whole,)
        budget = self._by_rule.get(rule.rule_id)
        if budget is None:
            budget = self._by_rule[rule.rule_id] = Budget(rule.limits, now)
        return (self._whole, budget)


class TenantBudgets:
    """The budgets of all tenants; of those without a policy of their own, `most_tenants` at a time."""

    def __init__(self, rules: TenantRules, most_tenants: int = MOST_TENANTS) -> None:
        self._rules = rules
        self._most_tenants = most_tenants
        self._named: dict[str, _Tenant] = {}
        self._others: OrderedDict[str, _Tenant] = OrderedDict()

    def reserve(self, tenant: str, model: str, tokens: int, now: float) -> Reservation | Denied:
        """Charge a request for `model`, a canonical name, with the tokens of its prompt; or charge nothing."""
        budgets = self._tenant(tenant, now).budgets(model, now)
        longest = 0.0
        for budget in budgets:
            wait_secs = budget.wait_secs(tokens, now)
            if wait_secs is None:
                return Denied(None)
            longest = max(longest, wait_secs)
        if longest > 0:
            return Denied(longest)
        for budget in budgets:
            budget.reserve(tokens, now)
        return Reservation(budgets, tokens)

    def _tenant(self, key: str, now: float) -> _Tenant:
        if key in self._rules.tenants:
            known = self._named.get(key)
            if known is None:
                known = self._named[key] = _Tenant(self._rules.tenants[key], now)
            return known
        other = self._others.get(key)
        if other is not None:
            self._others.move_to_end(key)
            return other
        if len(self._others) >= self._most_tenants:
            self._others.popitem(last=False)
        other = self._others[key] = _Tenant(self._rules.default_policy, now)
        return other
