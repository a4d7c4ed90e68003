"""GET /v1/realtime: a WebSocket between a client and a realtime worker, relayed as bytes.

The worker is asked first, and the client gets its 101 only after the worker's: a worker that refuses is heard as it is.
From then on the exchange is a tunnel (`net/tunnel.py`), which holds the permit and the lease until both ends are gone.
"""

from __future__ import annotations

from smg.fleet.realtime import POLICY_NAME
from smg.net.exchange import Exchange
from smg.net.tunnel import Tunnels
from smg.protocol.failures import FormFailure
from smg.protocol.realtime import model_in
from smg.protocol.requests import Request
from smg.protocol.websocket import NoHandshake, Offer, offer_of
from smg.serving.call import Endpoint
from smg.serving.dispatch import Dispatcher
from smg.serving.parse import Parser
from smg.serving.session import Session

_TEXT = b"text/plain; charset=utf-8"

ENDPOINTS = (Endpoint("realtime", "/v1/realtime", Request, method="GET", mode="websocket", policy=POLICY_NAME),)


class SessionEndpoint:
    """Serves the route: check the client's handshake, then dispatch."""

    def __init__(self, tunnels: Tunnels, endpoint: Endpoint, parser: Parser, dispatcher: Dispatcher) -> None:
        self._tunnels = tunnels
        self._endpoint = endpoint
        self._parser = parser
        self._dispatcher = dispatcher

    async def serve(self, exchange: Exchange) -> None:
        """Serve one session to the end of both its connections."""
        try:
            offer = _offer(exchange)
        except NoHandshake as error:
            exchange.answer(error.status, error.reason.encode(), _TEXT, headers=error.headers)
            return
        model = model_in(exchange.query)
        if not model:
            raise FormFailure("The query names no model")
        call = self._parser.unread(exchange, self._endpoint, model, "", stream=True)
        call.session = Session(offer, self._tunnels)
        await self._dispatcher.run(exchange, call)


def _offer(exchange: Exchange) -> Offer:
    if exchange.body.size or not exchange.body.complete:
        raise NoHandshake("an upgrade has no body")
    if exchange.method != "GET":
        return offer_of({})
    return offer_of(exchange.headers, http10=exchange.head.http10)
