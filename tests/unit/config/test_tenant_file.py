import pytest

from smg.config.tenant_file import read_tenant_file
from smg.config.tenant_rules import Limits, ModelRule, TenantPolicy, TenantRules
from smg.errors import ConfigError

DEFAULT = "default_policy: {tokens_per_minute: 10, requests_per_minute: 5}\n"
BOTH = "tokens_per_minute: 3, requests_per_minute: 2"


def read(text):
    return read_tenant_file("t.yaml", lambda _path: text)


def with_rules(*rules):
    """A default policy with model rules, one a line from line 5 on."""
    lines = ["default_policy:", "  tokens_per_minute: 10", "  requests_per_minute: 5", "  model_rules:"]
    return "\n".join([*lines, *[f"    - {rule}" for rule in rules]])


def model_rule(rule_id="a", kind="exact", value="m", limits=BOTH):
    return f"{{rule_id: '{rule_id}', matcher: {{type: {kind}, value: '{value}'}}, {limits}}}"


def problems(text):
    with pytest.raises(ConfigError) as caught:
        read(text)
    flag = "--tenant-rate-limit-config: "
    assert all(problem.startswith(flag) for problem in caught.value.problems)
    return [problem.removeprefix(flag) for problem in caught.value.problems]


def test_tenants_and_models_have_limits_of_their_own():
    text = DEFAULT + (
        "tenants:\n"
        f'  - {{tenant_key: "auth:red", {BOTH}}}\n'
        "  - tenant_key: ip:10.0.0.1\n"
        "    tokens_per_minute: 7\n"
        "    requests_per_minute: 6\n"
        f"    model_rules: [{model_rule('big_1.x-y', 'prefix', 'llama/')}]\n"
    )
    rule = ModelRule("big_1.x-y", "prefix", "llama/", Limits(3, 2))
    assert read(text) == TenantRules(
        TenantPolicy(Limits(10, 5)),
        {"auth:red": TenantPolicy(Limits(3, 2)), "ip:10.0.0.1": TenantPolicy(Limits(7, 6), (rule,))},
    )


def test_the_same_value_may_be_matched_exactly_and_as_a_prefix():
    assert len(read(with_rules(model_rule("a"), model_rule("b", "prefix"))).default_policy.model_rules) == 2


def test_each_tenant_may_use_the_same_rule_ids():
    tenants = "\n".join(f"  - {{tenant_key: 'auth:{t}', {BOTH}, model_rules: [{model_rule()}]}}" for t in "ab")
    assert len(read(f"{DEFAULT}tenants:\n{tenants}").tenants) == 2


@pytest.mark.parametrize(
    ("text", "complaint", "line"),
    [
        ("", "must have default_policy", 1),
        ("tenants: []", "must have default_policy", 1),
        ("default_policy: {tokens_per_minute: 1}", "default_policy must have requests_per_minute", 1),
        ("default_policy: 5", "default_policy must map names to values", 1),
        (f"{DEFAULT}bogus: 1", "bogus is no known field", 2),
        (f"{DEFAULT}{DEFAULT}", "default_policy is given twice", 2),
        (f"{DEFAULT}tenants: {{}}", "tenants must be a list", 2),
        (f"{DEFAULT}tenants: [{{{BOTH}}}]", "tenants[0] must have tenant_key", 2),
        (
            f"{DEFAULT}tenants:\n- {{tenant_key: 'auth:a'}}",
            "tenants[0] must have tokens_per_minute and requests_per_minute",
            3,
        ),
        (
            f"{DEFAULT}tenants:\n- {{tenant_key: red, {BOTH}}}",
            "tenants[0].tenant_key must be auth:<tenant>, header:<value>, ip:<address> or anonymous, got 'red'",
            3,
        ),
        (
            f"{DEFAULT}tenants:\n- {{tenant_key: anonymous, {BOTH}}}\n- {{tenant_key: anonymous, {BOTH}}}",
            "tenants[1].tenant_key is given twice, got 'anonymous'",
            4,
        ),
        (with_rules("5"), "default_policy.model_rules[0] must map names to values", 5),
        (
            with_rules(model_rule("a b")),
            "default_policy.model_rules[0].rule_id must be made of letters, digits, '.', '_' and '-', got 'a b'",
            5,
        ),
        (
            with_rules(model_rule(), model_rule(value="n")),
            "default_policy.model_rules[1].rule_id is given twice, got 'a'",
            6,
        ),
        (
            with_rules(model_rule(), model_rule("b")),
            "default_policy.model_rules[1].matcher.value is matched by another rule already, got 'm'",
            6,
        ),
        (
            with_rules(model_rule(kind="glob")),
            "default_policy.model_rules[0].matcher.type must be one of exact, prefix, got 'glob'",
            5,
        ),
        (
            with_rules(model_rule(value="")),
            "default_policy.model_rules[0].matcher.value must name a model, or how models begin",
            5,
        ),
        (with_rules("{rule_id: a, " + BOTH + "}"), "default_policy.model_rules[0] must have matcher", 5),
    ],
)
def test_a_problem_names_its_place_and_its_line(text, complaint, line):
    assert problems(text) == [f"{complaint} (from t.yaml:{line})"]


@pytest.mark.parametrize("name", ["tokens_per_minute", "requests_per_minute"])
@pytest.mark.parametrize("value", ["0", "-3", "1.5", "many", "1_000", "0x10", "1e3", "9999999999999999", "[]"])
def test_limits_are_whole_numbers_above_zero(name, value):
    other = ({"tokens_per_minute", "requests_per_minute"} - {name}).pop()
    [problem] = problems(f"default_policy:\n  {other}: 1\n  {name}: {value}\n")
    assert problem.startswith(f"default_policy.{name} must be a whole number of at least 1")
    assert problem.endswith("(from t.yaml:3)")


def test_all_problems_are_reported_at_once():
    text = with_rules(model_rule(limits="tokens_per_minute: 0, requests_per_minute: 0"), model_rule("b!", "x"))
    assert len(problems(text + "\nbogus: 1\ntenants: [1]\n")) == 6
