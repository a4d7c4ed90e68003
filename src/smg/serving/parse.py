"""From an exchange to a `Call`: the body read, checked and brought into its one form, the model resolved.

A body that passes through unparsed skips all of that: its model is the only one there is, and placement knows its
headers alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from smg.errors import GatewayError
from smg.fleet.hints import NO_HINTS, Hints
from smg.fleet.placement import Needs, Placer
from smg.fleet.registry import Registry
from smg.net.exchange import Exchange
from smg.protocol.batches import batch_size, choices
from smg.protocol.body import edit
from smg.protocol.contracts import settle
from smg.protocol.decoding import decode
from smg.protocol.failures import ParseFailure, RuleViolation
from smg.protocol.headers import is_json
from smg.protocol.hints import TOKENS_HEADER, first_routing_key, routing_tokens, session_of
from smg.protocol.prompt_cost import prompt_cost, text_cost
from smg.protocol.prompts import cache_partition, prompt_text, prompt_tokens
from smg.protocol.requests import Request
from smg.services.tenant_limits import TenantLimits
from smg.serving.accounts import CallAccounts
from smg.serving.body_path import BodyPathOptions, reason_by_length
from smg.serving.call import Call, Endpoint
from smg.serving.fleet_view import FleetView
from smg.telemetry.logs import get_logger

log = get_logger("smg.serving")

_TARGET_HEADER = b"x-smg-target-worker"
# What stands for a caller that names no key, in order. Its credential does not: callers often share one.
_IDENTITY_HEADERS = (b"x-forwarded-for", b"cookie")


class Parser:
    """Makes calls of exchanges. `key_headers` are the names that may bring a routing key, in lower case."""

    def __init__(
        self,
        registry: Registry,
        selector: Placer,
        options: BodyPathOptions,
        key_headers: Sequence[bytes],
        accounts: CallAccounts,
        limits: TenantLimits | None,
    ) -> None:
        self._selector = selector
        self._view = FleetView(registry, selector, options)
        self._options = options
        self._key_headers = tuple(key_headers)
        self._accounts = accounts
        self._limits = limits
        self._looks_closer = options.pairs or limits is not None

    async def parse(self, exchange: Exchange, endpoint: Endpoint) -> Call:
        """The call of an exchange.

        Raises RequestFailure for a body that is no request of the endpoint, GatewayError for one that does not arrive
        or that its tenant cannot afford.
        """
        tokens = self._hinted_tokens(exchange, endpoint)
        if endpoint.may_stream_body:
            call = self._unparsed(exchange, endpoint, tokens)
            if call is not None:
                return call
        if not is_json(exchange.headers.get(b"content-type")):
            raise ParseFailure("The request must have the header Content-Type: application/json")
        body = exchange.body.take()
        if body is None:
            body = await exchange.read_body()
        request = decode(endpoint.kind, body)
        edits, broken, foreign = settle(request, body)
        if broken:
            raise RuleViolation.of(broken)
        if foreign:
            log.warning("members of messages that belong to another model family are dropped", members="tools")
        model, spelling, label, policy = self._view.named(
            request.model  # type: ignore[attr-defined]  # every kind of an endpoint has one
        )
        if spelling is not None:
            edits["model"] = spelling
        hints = self._hints(exchange, policy, tokens, request)
        if self._options.sticky_override:
            hints = self._with_session(hints, exchange, model, request)
        stream = bool(getattr(request, "stream", None))
        call = Call(endpoint, edit(body, edits), model, label, stream=stream, hints=hints)
        if self._looks_closer:
            self._complete(call, exchange, request)
        return call

    def unread(self, exchange: Exchange, endpoint: Endpoint, name: str, text: str, *, stream: bool) -> Call:
        """The call of a request whose body is no JSON and has been read by somebody else.

        `name` is the model it asks for, `text` what of its prompt is text. Raises GatewayError as `parse` does.
        """
        model, _, label, policy = self._view.named(name)
        tokens = routing_tokens(exchange.headers.get(TOKENS_HEADER))
        hints = self._hints(exchange, policy, tokens, None)
        if self._options.sticky_override:
            hints = self._with_session(hints, exchange, model, None)
        call = Call(endpoint, None, model, label, stream=stream, hints=hints)
        if self._limits is not None:
            call.charge = self._limits.reserve(exchange.tenant, model, text_cost(text))
        return call

    def _hinted_tokens(self, exchange: Exchange, endpoint: Endpoint) -> list[int] | None:
        """The prompt's tokens as a header hints at them. Pairs are placed by the request alone."""
        if not self._options.pairs:
            return routing_tokens(exchange.headers.get(TOKENS_HEADER))
        if not endpoint.splits:
            raise GatewayError(f"{endpoint.name}_not_supported", f"{endpoint.path} is not served by pairs of workers")
        return None

    def _complete(self, call: Call, exchange: Exchange, request: Request) -> None:
        """What only some deployments need to know of a request."""
        if self._options.pairs:
            call.batch_size, call.choices = batch_size(request), choices(request)
        if self._limits is not None:
            call.charge = self._limits.reserve(exchange.tenant, call.model, prompt_cost(request))

    def _unparsed(self, exchange: Exchange, endpoint: Endpoint, tokens: list[int] | None) -> Call | None:
        """The call whose body passes through, if nothing in the way of that; None if the body must be read."""
        must = self._view.reason_to_read(has_token_hint=tokens is not None)
        buffer, reason = (True, must) if must is not None else reason_by_length(self._options, exchange.body.length)
        if self._limits is not None and not buffer:
            buffer, reason = True, "tenant_rate_limit"  # its price is not known unless it is read
        if buffer:
            self._accounts.body_path("buffered", reason)
            return None
        model, _, label, policy = self._view.first()
        if not self._selector.can_place(model):
            self._accounts.body_path("buffered", "no_available_worker")
            return None
        self._accounts.body_path("streamed", reason)
        return Call(endpoint, None, model, label, hints=self._hints(exchange, policy, tokens, None))

    def _hints(self, exchange: Exchange, policy: Needs, tokens: list[int] | None, request: Request | None) -> Hints:
        """What the policy looks at; nothing else is worked out."""
        if not policy.reads_text and not policy.reads_keys:
            return NO_HINTS
        headers = exchange.headers
        hints = Hints(tokens=tokens)
        if policy.reads_keys:
            hints.routing_key = first_routing_key(headers, self._key_headers)
            hints.target = _text(headers.get(_TARGET_HEADER))
            hints.identity = _identity(headers)
        if policy.reads_text and request is not None:
            hints.partition = cache_partition(request)
            if tokens is None:
                hints.tokens = prompt_tokens(request)
                if hints.tokens is None:
                    hints.text = prompt_text(request)
        return hints

    def _with_session(self, hints: Hints, exchange: Exchange, model: str | None, request: Request | None) -> Hints:
        """Name the sticky session: by the routing key of the headers, else by the body's `rid`; one of each model."""
        source = "header"
        session = session_of(first_routing_key(exchange.headers, self._key_headers))
        if session is None:
            source = "rid"
            session = session_of(getattr(request, "rid", None))
        if session is None:
            return hints
        self._accounts.routing_key_source(source)
        return replace(hints, routing_key=session, session=f"{model}\0{session}")


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def _identity(headers: dict[bytes, bytes]) -> str | None:
    for name in _IDENTITY_HEADERS:
        value = headers.get(name)
        if value:
            return value.decode("latin-1")
    return None
