"""GET /v1/realtime: a WebSocket between a client and a realtime worker, relayed as bytes.

The worker is asked first, and the client gets its 101 only after the worker's: a worker that refuses is heard as it is.
From then on the exchange is a tunnel (`net/tunnel.py`), which holds the permit and the lease until both ends are gone.
"""

from __future__ import annotations

from smg.errors import PlacementError, UpstreamError
from smg.fleet.placement import Placer
from smg.fleet.worker import Worker
from smg.net.exchange import Exchange
from smg.net.routes import Route
from smg.net.tunnel import Tunnel, Tunnels
from smg.protocol.failures import FormFailure
from smg.protocol.realtime import model_in
from smg.protocol.requests import Request
from smg.protocol.websocket import NoHandshake, Offer, answer_lines, offer_of
from smg.serving.accounts import CallAccounts
from smg.serving.call import Call, Endpoint
from smg.serving.parse import Parser
from smg.serving.relay import relay_whole
from smg.serving.upstreams.realtime import Handshake, RealtimeUpstream
from smg.serving.verdicts import Verdicts

SWITCHING_PROTOCOLS = 101
_TEXT = b"text/plain; charset=utf-8"

ENDPOINT = Endpoint("realtime", "/v1/realtime", Request, mode="websocket", policy="least_in_flight")


class RealtimeEndpoint:
    """Serves the route: check, place, ask the worker, tunnel. There is one attempt."""

    def __init__(
        self,
        parser: Parser,
        placer: Placer,
        upstream: RealtimeUpstream,
        accounts: CallAccounts,
        verdicts: Verdicts,
        tunnels: Tunnels,
        max_answer_bytes: int,
    ) -> None:
        self._parser = parser
        self._placer = placer
        self._upstream = upstream
        self._accounts = accounts
        self._verdicts = verdicts
        self._tunnels = tunnels
        self._max_answer_bytes = max_answer_bytes

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
        call = self._parser.unread(exchange, ENDPOINT, model, "", stream=True)
        with self._accounts.counting(call, exchange.started_at):
            await self._attempt(exchange, call, offer)

    async def _attempt(self, exchange: Exchange, call: Call, offer: Offer) -> None:
        try:
            placement = self._placer.place(call.model, call.hints)
            self._placer.lease(placement, call.hints)
        except PlacementError:
            self._accounts.unplaced(call)
            raise
        worker = placement.worker
        try:
            self._accounts.placed(call, worker)
            exchange.worker = worker.url
            await self._meet(exchange, call, worker, offer)
        except UpstreamError as error:
            self._verdicts.failed(call, worker, error)
            self._accounts.lost(call, worker, error)
            raise
        finally:
            self._placer.release(placement, call.hints)

    async def _meet(self, exchange: Exchange, call: Call, worker: Worker, offer: Offer) -> None:
        """Ask the worker, and give its answer to the client."""
        handshake = await self._upstream.open(worker, call, exchange, offer)
        reply = handshake.reply
        try:
            granted = reply.status == SWITCHING_PROTOCOLS
            block, body = b"", b""
            if granted:
                block = _granted(offer, handshake) + self._upstream.routed_line(worker)
            else:
                body = await reply.read(self._max_answer_bytes)
            self._accounts.answered(reply.status)
            self._verdicts.judge(call, worker, reply.status)
            if granted:
                await self._relay(exchange, block, handshake)
            else:
                relay_whole(exchange, reply, body, self._upstream.routed_line(worker))
        finally:
            reply.close()

    async def _relay(self, exchange: Exchange, block: bytes, handshake: Handshake) -> None:
        tunnel = Tunnel(self._tunnels, exchange.switch(block), handshake.connection)
        try:
            await tunnel.run()
        finally:
            exchange.body.size = tunnel.client.moved
            exchange.bytes_out = tunnel.worker.moved


def _offer(exchange: Exchange) -> Offer:
    if exchange.body.size or not exchange.body.complete:
        raise NoHandshake("an upgrade has no body")
    if exchange.method != "GET":
        return offer_of({})
    return offer_of(exchange.headers, http10=exchange.head.http10)


def _granted(offer: Offer, handshake: Handshake) -> bytes:
    """The lines of the answer to the client. Raises UpstreamError if the worker's is no handshake."""
    try:
        return answer_lines(offer, handshake.key, handshake.reply.head.fields)
    except NoHandshake as error:
        raise UpstreamError("realtime_request_failed", f"the worker's answer is no handshake: {error.reason}") from None


def route(endpoint: RealtimeEndpoint) -> Route:
    """The route."""
    return Route("GET", ENDPOINT.path, endpoint.serve, "serving")
