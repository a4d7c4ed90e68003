"""Every range and cross-field rule of the validated routes, one row each.

The ranges are those of OpenAI's reference and of SGLang's extensions. `violations` applies the table,
tests read it. A rule about more than one member carries the prefix `__all__`, by which clients know it from a
rule about a single member. Vendor rules that depend on the model are in `profiles/`; what is no valid value at
all is the shapes' affair (`requests.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import msgspec

from smg.protocol.decisions import DecisionsRequest
from smg.protocol.decisions_limits import (
    MAX_IDENTIFIER_CHARS,
    MAX_IMAGES,
    MAX_PART_CHARS,
    MAX_WORDING_CHARS,
    count_images,
    long_parts,
    long_wordings,
    remote_images,
)
from smg.protocol.messages import Root, User
from smg.protocol.requests import (
    ChatRequest,
    CompletionRequest,
    CountTokensRequest,
    InteractionRequest,
    JsonSchemaFormat,
    MessagesRequest,
    NamedChoice,
    Request,
    RerankRequest,
    ResponsesRequest,
    TextFormat,
)

Holds = Callable[[Any, Any], bool]

NOT_BLANK = r"[^\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
"""A pattern that finds anything but white space, which is what `str.strip` takes for that; dialects differ on `\\S`."""

_LONGEST_SHOWN_CHARS = 80
_MOST_NAMED = 5


def shown(value: object) -> str:
    """A value as the client would spell it, cut to a length fit for a message."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST_SHOWN_CHARS else text[:_LONGEST_SHOWN_CHARS] + "…"


@dataclass(frozen=True, slots=True)
class Rule:
    """One row. `holds(value, request)` is asked only when the request has `field`, so `value` is never None.

    `also` names the other members that the rule reads: a rule with some is a cross-field rule. `sent` says
    what was sent where the value itself would say too much or too little. `schema` is the rule in the words of
    JSON Schema, for the published description (`openapi/`); None for one that a schema cannot say.
    """

    field: str
    says: str
    holds: Holds
    also: tuple[str, ...] = ()
    sent: Callable[[Any], str] = shown
    schema: Mapping[str, Any] | None = None

    def message(self, request: Request) -> str:
        """What to tell the caller: the field, the rule, and what was sent."""
        own = self.sent(getattr(request, self.field))
        if not self.also:
            return f"{self.field}: {self.says}, got {own}"
        others = ", ".join(f"{name}={shown(getattr(request, name))}" for name in self.also)
        return f"__all__: {self.field} {self.says}, got {self.field}={own}, {others}"


def _between(name: str, low: float, high: float) -> Rule:
    schema = {"minimum": low, "maximum": high}
    return Rule(name, f"must be between {low} and {high}", lambda value, _: low <= value <= high, schema=schema)


def _at_least(name: str, low: int) -> Rule:
    return Rule(name, f"must be at least {low}", lambda value, _: value >= low, schema={"minimum": low})


def _not_empty(name: str) -> Rule:
    return Rule(name, "must not be empty", lambda value, _: len(value) > 0, schema={"minItems": 1})


def _excludes(name: str, other: str) -> Rule:
    return Rule(name, f"excludes {other}", lambda _, request: getattr(request, other) is None, also=(other,))


_MOST_STOPS = 4


def _few_stops(stop: str | list[str], _: Request) -> bool:
    return type(stop) is str or len(stop) <= _MOST_STOPS


def _speaking_stops(stop: str | list[str], _: Request) -> bool:
    return stop != "" if type(stop) is str else "" not in stop


def _within_limit(min_tokens: int, request: ChatRequest | CompletionRequest) -> bool:
    limit = request.token_limit
    return limit is None or min_tokens <= limit


_BOTH_ROUTES = (
    _between("temperature", 0, 2),
    Rule(
        "top_p",
        "must be greater than 0 and at most 1",
        lambda value, _: 0 < value <= 1,
        schema={"exclusiveMinimum": 0, "maximum": 1},
    ),
    _between("presence_penalty", -2, 2),
    _between("frequency_penalty", -2, 2),
    Rule("stop", f"takes at most {_MOST_STOPS} sequences", _few_stops, schema={"maxItems": _MOST_STOPS}),
    Rule("stop", "takes no empty sequence", _speaking_stops, schema={"minLength": 1, "items": {"minLength": 1}}),
    Rule(
        "top_k",
        "must be at least 1, or -1 to disable it",
        lambda value, _: value >= 1 or value == -1,
        schema={"minimum": -1, "not": {"const": 0}},
    ),
    _between("min_p", 0, 1),
    _between("repetition_penalty", 0, 2),
    Rule(
        "stream_options",
        "is only allowed with stream: true",
        lambda _, request: request.stream is True,
        also=("stream",),
    ),
)


def _no_root(messages: list[Any], _: Request) -> bool:
    for message in messages:  # noqa: SIM110  a generator would cost more than the loop
        if type(message) is Root:
            return False
    return True


def _users_speak(messages: list[Any], _: Request) -> bool:
    for message in messages:  # noqa: SIM110  as above
        if not message.content and type(message) is User:
            return False
    return True


def _silent_users(messages: list[Any]) -> str:
    silent = [f"messages[{i}]" for i, m in enumerate(messages) if type(m) is User and not m.content]
    return ", ".join(silent[:_MOST_NAMED])


def _roots(messages: list[Any]) -> str:
    return ", ".join([f"messages[{i}]" for i, m in enumerate(messages) if type(m) is Root][:_MOST_NAMED])


def _has_tools(choice: object, request: ChatRequest) -> bool:
    return bool(request.tools) or choice in ("none", "auto")


def _tools_exist(choice: Any, request: ChatRequest) -> bool:
    """Whether the functions that the choice names are declared. Without tools the rule before has spoken."""
    if type(choice) is str or not request.tools:
        return True
    declared = {tool.function.name for tool in request.tools if tool.function}
    if type(choice) is NamedChoice:
        return choice.function.name in declared
    return declared.issuperset(tool.name for tool in choice.tools)


def _free_output(_: str, request: ChatRequest) -> bool:
    return request.response_format is None or type(request.response_format) is TextFormat


def _named_schema(response_format: object, _: Request) -> bool:
    return type(response_format) is not JsonSchemaFormat or response_format.json_schema.name != ""


def _object_schema(response_format: object, _: Request) -> bool:
    if type(response_format) is not JsonSchemaFormat:
        return True
    return bytes(response_format.json_schema.schema).startswith(b"{")


def _complete_tools(tools: list[Any], _: Request) -> bool:
    return all(tool.function is not None or tool.type != "function" for tool in tools)


_CHAT = (
    _not_empty("messages"),
    Rule("messages", "must not have the role root, which is not for this model", _no_root, sent=_roots),
    Rule("messages", "must have content where the role is user", _users_speak, sent=_silent_users),
    _at_least("max_completion_tokens", 1),
    _at_least("max_tokens", 1),
    _between("n", 1, 10),
    *_BOTH_ROUTES,
    _between("top_logprobs", 0, 20),
    Rule(
        "top_logprobs",
        "requires logprobs: true",
        lambda _, request: request.logprobs is True,
        also=("logprobs",),
    ),
    Rule(
        "min_tokens",
        "must not exceed max_completion_tokens",
        _within_limit,
        also=("max_completion_tokens", "max_tokens"),
    ),
    _excludes("regex", "ebnf"),
    Rule("regex", "excludes a JSON response_format", _free_output, also=("response_format",)),
    Rule("ebnf", "excludes a JSON response_format", _free_output, also=("response_format",)),
    Rule("response_format", "must have a json_schema.name that is not empty", _named_schema),
    Rule("response_format", "must have an object as json_schema.schema", _object_schema),
    Rule("tools", "must have a function where the type is function", _complete_tools),
    Rule("tool_choice", "requires tools", _has_tools, also=("tools",)),
    Rule("tool_choice", "may only name declared tools", _tools_exist, also=("tools",)),
)

_COMPLETIONS = (
    Rule("prompt", "must not be an empty list", lambda value, _: value != [], schema={"minItems": 1}),
    _between("n", 1, 128),
    _between("best_of", 0, 20),
    Rule("best_of", "must be greater than n", lambda value, r: r.n is None or value > r.n, also=("n",)),
    Rule("best_of", "excludes stream: true", lambda _, request: request.stream is not True, also=("stream",)),
    *_BOTH_ROUTES,
    _between("logprobs", 0, 5),
    Rule("min_tokens", "must not exceed max_tokens", _within_limit, also=("max_tokens",)),
    _excludes("regex", "ebnf"),
    _excludes("json_schema", "regex"),
    _excludes("json_schema", "ebnf"),
)

_RESPONSES = (_at_least("max_output_tokens", 1),)

_COUNT_TOKENS = (_not_empty("messages"),)

_MESSAGES = (*_COUNT_TOKENS, _at_least("max_tokens", 1))

_INTERACTIONS = (_excludes("agent", "model"), _excludes("model", "agent"))

_RERANK = (
    Rule("query", "must not be blank", lambda value, _: value.strip() != "", schema={"pattern": NOT_BLANK}),
    _not_empty("documents"),
    _at_least("top_k", 1),
    _at_least("top_n", 1),
)


def _at_most_chars(name: str, most: int) -> Rule:
    return Rule(
        name,
        f"must have at most {most} characters",
        lambda value, _: len(value) <= most,
        sent=lambda value: f"{len(value)} characters",
        schema={"maxLength": most},
    )


def _none_at(name: str, says: str, offending: Callable[[Any], list[str]], sent: str) -> Rule:
    """The rule that nothing in a member breaks a limit; `sent` is what was found in the places that do."""

    def places(value: Any) -> str:
        found = offending(value)
        return ", ".join(found[:_MOST_NAMED]) + (", …" if len(found) > _MOST_NAMED else "")

    return Rule(name, says, lambda value, _: not offending(value), sent=lambda value: f"{sent} in {places(value)}")


_DECISIONS = (
    _at_most_chars("model", MAX_WORDING_CHARS),
    _at_most_chars("safety_identifier", MAX_IDENTIFIER_CHARS),
    _none_at("input", f"text parts must have at most {MAX_PART_CHARS} characters", long_parts, "more"),
    _none_at("input", "images must be inline, as data:image/...;base64,...", remote_images, "something else"),
    Rule(
        "input",
        f"must have at most {MAX_IMAGES} images",
        lambda value, _: count_images(value) <= MAX_IMAGES,
        sent=lambda value: str(count_images(value)),
    ),
    _none_at(
        "questions",
        f"instructions, names, descriptions and labels must have at most {MAX_WORDING_CHARS} characters",
        long_wordings,
        "more",
    ),
)

RULES: dict[type[Request], tuple[Rule, ...]] = {
    ChatRequest: _CHAT,
    CompletionRequest: _COMPLETIONS,
    RerankRequest: _RERANK,
    ResponsesRequest: _RESPONSES,
    CountTokensRequest: _COUNT_TOKENS,
    MessagesRequest: _MESSAGES,
    InteractionRequest: _INTERACTIONS,
    DecisionsRequest: _DECISIONS,
}
"""The rules of each validated kind, in the order in which violations are reported."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """The rules of one kind, grouped so that a member that is not set costs one comparison."""

    read: Callable[[Any], tuple[Any, ...]]
    rules: tuple[tuple[Rule, ...], ...]
    checks: tuple[tuple[Holds, ...], ...]

    @classmethod
    def of(cls, rules: tuple[Rule, ...]) -> _Plan:
        fields = list(dict.fromkeys(rule.field for rule in rules))
        grouped = tuple(tuple(rule for rule in rules if rule.field == field) for field in fields)
        read = attrgetter(*fields)
        reads = read if len(fields) > 1 else lambda request: (read(request),)
        return cls(reads, grouped, tuple(tuple(rule.holds for rule in group) for group in grouped))

    def messages(self, request: Request) -> list[str]:
        """What to tell the caller of a request that breaks some of the rules."""
        return [
            rule.message(request)
            for value, rules in zip(self.read(request), self.rules, strict=True)
            if value is not None
            for rule in rules
            if not rule.holds(value, request)
        ]


_PLANS = {kind: _Plan.of(rules) for kind, rules in RULES.items()}


def violations(request: Request) -> list[str]:
    """What `request` violates, one message a rule; empty if nothing, or if its kind has no rules."""
    plan = _PLANS.get(type(request))
    if plan is None:
        return []
    for value, checks in zip(plan.read(request), plan.checks):  # noqa: B905  of one length, and on the hot path
        if value is not None:
            for holds in checks:
                if not holds(value, request):
                    return plan.messages(request)
    return []
