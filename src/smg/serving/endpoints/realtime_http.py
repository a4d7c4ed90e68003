"""The HTTP routes of the Realtime API: sessions and client secrets in JSON, and calls, which are signalling for WebRTC.

Each is one call with a single attempt, since what a worker creates must not be created twice. Of a call only the offer
and the answer pass: media flow between the client and the addresses that the worker's answer names.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import NamedTuple

from smg.errors import GatewayError
from smg.fleet.realtime import POLICY_NAME
from smg.net.body import too_large
from smg.net.exchange import Exchange
from smg.protocol.failures import FormFailure, ParseFailure
from smg.protocol.headers import is_json
from smg.protocol.multipart import FormReader, boundary_of
from smg.protocol.realtime import (
    FIELDS,
    SDP_TYPE,
    Offered,
    model_in,
    offered_in,
    offered_plain,
    rendered,
    secret_model,
    session_model,
    with_model,
    with_secret_model,
    with_session_model,
)
from smg.protocol.requests import ClientSecretRequest, RealtimeSessionRequest, Request
from smg.serving.call import Call, Endpoint
from smg.serving.dispatch import Dispatcher
from smg.serving.parse import Parser

MAX_CALL_BYTES = 10 * 1024 * 1024
# A parser in Python takes milliseconds for so many bytes made to look like boundaries; others get their turn.
SLICE_BYTES = 32 * 1024
_FORM_TYPE = b"multipart/form-data"


CREATING: tuple[Endpoint, ...] = (
    Endpoint("realtime_sessions", "/v1/realtime/sessions", RealtimeSessionRequest, policy=POLICY_NAME),
    Endpoint("realtime_client_secrets", "/v1/realtime/client_secrets", ClientSecretRequest, policy=POLICY_NAME),
    Endpoint(
        "realtime_transcription", "/v1/realtime/transcription_sessions", RealtimeSessionRequest, policy=POLICY_NAME
    ),
)
CALLING: tuple[Endpoint, ...] = (
    Endpoint("realtime", "/v1/realtime/calls", Request, mode="webrtc", policy=POLICY_NAME),
)


class _Place(NamedTuple):
    """Where the model stands in a body, and how another is put there."""

    model_of: Callable[[bytes], str]
    with_model: Callable[[bytes, str], bytes]


_PLACES: dict[type[Request], _Place] = {
    RealtimeSessionRequest: _Place(session_model, with_session_model),
    ClientSecretRequest: _Place(secret_model, with_secret_model),
}


class CreatingEndpoint:
    """Serves one row of `CREATING`."""

    def __init__(self, endpoint: Endpoint, parser: Parser, dispatcher: Dispatcher) -> None:
        self._endpoint = endpoint
        self._place = _PLACES[endpoint.kind]
        self._parser = parser
        self._dispatcher = dispatcher

    async def serve(self, exchange: Exchange) -> None:
        """Serve one exchange to the last byte of its answer."""
        if not is_json(exchange.headers.get(b"content-type")):
            raise ParseFailure("The request must have the header Content-Type: application/json")
        body = await exchange.read_body()
        model = self._place.model_of(body)
        call = self._parser.unread(exchange, self._endpoint, model, "", stream=False)
        call.body = body if call.model in (None, model) else self._place.with_model(body, call.model)
        await self._dispatcher.run(exchange, call)


class CallEndpoint:
    """Serves the row of `CALLING`."""

    def __init__(self, endpoint: Endpoint, parser: Parser, dispatcher: Dispatcher) -> None:
        self._endpoint = endpoint
        self._parser = parser
        self._dispatcher = dispatcher

    async def serve(self, exchange: Exchange) -> None:
        """Serve one exchange to the last byte of its answer."""
        exchange.body.limit_bytes = min(exchange.body.limit_bytes, MAX_CALL_BYTES)
        content_type = exchange.headers.get(b"content-type", b"")
        kind = content_type.partition(b";")[0].strip(b" \t").lower()
        if kind == SDP_TYPE:
            offered = offered_plain(await _body(exchange), _queried(exchange))
        elif kind == _FORM_TYPE:
            offered = await _form(content_type, await _body(exchange))
        else:
            raise GatewayError("invalid_content_type", "the body must be application/sdp or multipart/form-data")
        call = self._parser.unread(exchange, self._endpoint, offered.model, "", stream=False)
        _write(call, offered)
        await self._dispatcher.run(exchange, call)


def _queried(exchange: Exchange) -> str:
    try:
        return model_in(exchange.query)
    except FormFailure as error:
        raise GatewayError("missing_model", error.message) from None


async def _body(exchange: Exchange) -> bytes:
    body = exchange.body
    if max(body.length or 0, body.size) > body.limit_bytes:
        raise too_large(body.limit_bytes)
    return await exchange.read_body()


async def _form(content_type: bytes, body: bytes) -> Offered:
    """What a form offers. Raises GatewayError."""
    try:
        reader = FormReader(boundary_of(content_type), FIELDS, max_field_bytes=MAX_CALL_BYTES)
    except FormFailure as error:
        raise GatewayError("invalid_multipart", error.message) from None
    try:
        for at in range(0, len(body), SLICE_BYTES):
            if at:
                await asyncio.sleep(0)
            reader.feed(body[at : at + SLICE_BYTES])
        form = reader.finish()
    except FormFailure as error:
        raise GatewayError("malformed_multipart", error.message) from None
    return offered_in(form)


def _write(call: Call, offered: Offered) -> None:
    """Put what is offered into the call, in the form it came in."""
    model = call.model or offered.model
    endpoint = call.endpoint
    if offered.session is None:
        call.body = offered.sdp.encode()
        call.endpoint = endpoint._replace(path=with_model(endpoint.path, model), content_type=SDP_TYPE)
        return
    boundary = secrets.token_hex(20).encode()  # not to be guessed by whoever made the fields
    call.body = rendered(offered, model, boundary)
    call.endpoint = endpoint._replace(content_type=b"multipart/form-data; boundary=" + boundary)
