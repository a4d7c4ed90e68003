"""The rules of tenant rate limits: how many tokens and requests a minute, whose they are, and for which models.

Reading them from a file is left to `tenant_file`, keeping them to the admission room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

MatcherType = Literal["exact", "prefix"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be used up in a minute. Both are above zero."""

    tokens_per_minute: int
    requests_per_minute: int


@dataclass(frozen=True, slots=True)
class ModelRule:
    """Limits of their own for the models whose canonical name is `value`, or begins with it."""

    rule_id: str
    matcher: MatcherType
    value: str
    limits: Limits


@dataclass(frozen=True, slots=True)
class TenantPolicy:
    """A tenant's limits over all models, and those for some of them, which hold in addition."""

    limits: Limits
    model_rules: tuple[ModelRule, ...] = ()

    def rule_for(self, model: str) -> ModelRule | None:
        """The one rule that holds for a model: an exact name beats a prefix, a longer prefix a shorter one."""
        best: ModelRule | None = None
        for rule in self.model_rules:
            if rule.matcher == "exact":
                if rule.value == model:
                    return rule
            elif model.startswith(rule.value) and (best is None or len(rule.value) > len(best.value)):
                best = rule
        return best


@dataclass(frozen=True, slots=True)
class TenantRules:
    """The policies by tenant key, and the one for all other tenants, of which each has a budget of its own."""

    default_policy: TenantPolicy
    tenants: Mapping[str, TenantPolicy] = field(default_factory=dict)

    def policy_of(self, tenant: str) -> TenantPolicy:
        return self.tenants.get(tenant, self.default_policy)


_KINDS = ("auth:", "header:", "ip:")
ANONYMOUS = "anonymous"


def tenant_key_complaint(key: str) -> str | None:
    """What is wrong with a tenant key as it stands in a file: the end of a sentence, or None."""
    if key != key.strip():
        return "must not begin or end with white space"
    if key == ANONYMOUS or any(key.startswith(kind) and key[len(kind) :].strip() for kind in _KINDS):
        return None
    return "must be auth:<tenant>, header:<value>, ip:<address> or anonymous"
