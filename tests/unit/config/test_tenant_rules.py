import pytest

from smg.config.tenant_rules import Limits, ModelRule, TenantPolicy, TenantRules, tenant_key_complaint

LIMITS = Limits(1, 1)


def rule(matcher, value):
    return ModelRule(f"{matcher}-{value}", matcher, value, LIMITS)


POLICY = TenantPolicy(LIMITS, (rule("prefix", "a"), rule("prefix", "a/b"), rule("exact", "a/b/c"), rule("prefix", "z")))


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("a/b/c", "exact-a/b/c"),
        ("a/b/cd", "prefix-a/b"),
        ("a/b", "prefix-a/b"),
        ("a", "prefix-a"),
        ("z", "prefix-z"),
        ("b", None),
        ("A", None),
    ],
)
def test_the_exact_name_beats_the_longest_prefix(model, expected):
    found = POLICY.rule_for(model)
    assert (found and found.rule_id) == expected


def test_the_order_of_prefixes_does_not_matter():
    assert TenantPolicy(LIMITS, POLICY.model_rules[::-1]).rule_for("a/b/x").value == "a/b"


def test_a_tenant_without_a_policy_has_the_default_one():
    own = TenantPolicy(Limits(5, 5))
    rules = TenantRules(POLICY, {"auth:red": own})
    assert rules.policy_of("auth:red") is own
    assert rules.policy_of("auth:blue") is POLICY


@pytest.mark.parametrize("key", ["auth:red", "header:a b", "ip:::1", "ip:10.0.0.1", "anonymous", "auth:a:b"])
def test_tenant_keys_say_where_the_name_comes_from(key):
    assert tenant_key_complaint(key) is None


@pytest.mark.parametrize("key", ["", "red", "auth:", "auth: ", " auth:red", "auth:red ", "Anonymous", "user:red"])
def test_other_keys_would_never_be_anybody_s(key):
    assert tenant_key_complaint(key)
