"""The file of `--tenant-rate-limit-config` to the rules of tenant rate limits, or to every problem with it.

default_policy:
  tokens_per_minute: 100000
  requests_per_minute: 600
tenants:
  - tenant_key: "auth:team-red"
    tokens_per_minute: 1000000
    requests_per_minute: 6000
    model_rules:
      - rule_id: big-models
        matcher: { type: prefix, value: meta-llama/ }
        tokens_per_minute: 200000
        requests_per_minute: 600
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from smg.config.load import read_file
from smg.config.tenant_rules import (
    Limits,
    MatcherType,
    ModelRule,
    TenantPolicy,
    TenantRules,
    tenant_key_complaint,
)
from smg.config.yaml_document import Document, Value, open_document

FLAG: Final = "--tenant-rate-limit-config"

_RULE_ID: Final = re.compile(r"[A-Za-z0-9._-]+")
_MATCHERS: Final[dict[str, MatcherType]] = {"exact": "exact", "prefix": "prefix"}
_LIMITS: Final = ("tokens_per_minute", "requests_per_minute")


def read_tenant_file(path: str, read_text: Callable[[str], str] = read_file) -> TenantRules:
    """The rules that a file states. Raises ConfigError with every problem of the file, each with its line."""
    document, root = open_document(FLAG, path, read_text)
    if root is None:
        document.problems.append(f"{FLAG}: must have default_policy (from {path}:1)")
    parts = document.fields(root, ("default_policy",), ("tenants",)) if root else {}
    default = parts.get("default_policy")
    policy = _policy(document, document.fields(default, _LIMITS, ("model_rules",))) if default else None
    tenants = _tenants(document, parts["tenants"]) if "tenants" in parts else {}
    document.refuse()
    assert policy is not None
    return TenantRules(policy, tenants)


def _tenants(document: Document, value: Value) -> dict[str, TenantPolicy]:
    found: dict[str, TenantPolicy] = {}
    for entry in document.items(value):
        fields = document.fields(entry, ("tenant_key", *_LIMITS), ("model_rules",))
        policy = _policy(document, fields)
        if "tenant_key" not in fields:
            continue
        key = document.text(fields["tenant_key"])
        complaint = tenant_key_complaint(key) or ("is given twice" if key in found else None)
        if complaint is not None:
            document.complain(fields["tenant_key"], f"{complaint}, got {key!r}")
        found[key] = policy
    return found


def _policy(document: Document, fields: dict[str, Value]) -> TenantPolicy:
    rules = _rules(document, fields["model_rules"]) if "model_rules" in fields else ()
    return TenantPolicy(_limits(document, fields), rules)


def _limits(document: Document, fields: dict[str, Value]) -> Limits:
    tokens, requests = (document.whole(fields[name], 1) if name in fields else 1 for name in _LIMITS)
    return Limits(tokens, requests)


def _rules(document: Document, value: Value) -> tuple[ModelRule, ...]:
    rules: list[ModelRule] = []
    ids: set[str] = set()
    matchers: set[tuple[str, str]] = set()
    for entry in document.items(value):
        fields = document.fields(entry, ("rule_id", "matcher", *_LIMITS))
        rule = ModelRule(
            _rule_id(document, fields, ids), *_matcher(document, fields, matchers), _limits(document, fields)
        )
        rules.append(rule)
    return tuple(rules)


def _rule_id(document: Document, fields: dict[str, Value], taken: set[str]) -> str:
    """The id of a rule, unlike those of the rules before it."""
    if "rule_id" not in fields:
        return ""
    rule_id = document.text(fields["rule_id"])
    if not _RULE_ID.fullmatch(rule_id):
        document.complain(fields["rule_id"], f"must be made of letters, digits, '.', '_' and '-', got {rule_id!r}")
    elif rule_id in taken:
        document.complain(fields["rule_id"], f"is given twice, got {rule_id!r}")
    taken.add(rule_id)
    return rule_id


def _matcher(document: Document, fields: dict[str, Value], taken: set[tuple[str, str]]) -> tuple[MatcherType, str]:
    """How a rule finds its models, unlike the rules before it."""
    parts = document.fields(fields["matcher"], ("type", "value")) if "matcher" in fields else {}
    kind = document.choice(parts["type"], _MATCHERS) if "type" in parts else None
    text = document.text(parts["value"]) if "value" in parts else ""
    if "value" in parts and not text:
        document.complain(parts["value"], "must name a model, or how models begin")
    elif kind is not None and text and (kind, text) in taken:
        document.complain(parts["value"], f"is matched by another rule already, got {text!r}")
    if kind is not None:
        taken.add((kind, text))
    return kind or "exact", text
