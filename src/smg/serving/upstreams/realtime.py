"""Sending what belongs to the Realtime API: sessions, and the HTTP calls beside them.

Unlike other calls these must have a credential, the caller's or the worker's own key: a realtime engine without one
would hand out sessions, and secrets, to whoever asks.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass

from smg.errors import Unauthorized, UpstreamError, UpstreamTimeout
from smg.fleet.placement import Placement
from smg.fleet.worker import Worker
from smg.net.exchange import Exchange
from smg.net.http1.client import UpstreamConnection
from smg.net.reply import Reply
from smg.protocol.realtime import with_model
from smg.protocol.websocket import Offer, key_of, request_lines
from smg.serving.call import Call
from smg.serving.upstreams.http import HttpUpstream, Link, head_lines

# From the first packet to the worker until its answer.
HANDSHAKE_SECS = 10.0
_NONCE_BYTES = 16


@dataclass(slots=True)
class Handshake:
    """A handshake that was sent with `key`: the connection it went on, and the answer."""

    key: bytes
    connection: UpstreamConnection
    reply: Reply


class RealtimeUpstream:
    """Sends over the links of an `HttpUpstream`. The path and the type of a call's body are its endpoint's."""

    def __init__(self, http: HttpUpstream) -> None:
        self._http = http
        self._loop = asyncio.get_running_loop()

    def routed_line(self, worker: Worker) -> bytes:
        """The response header that names the worker."""
        return self._http.routed_line(worker)

    async def send(self, placement: Placement, call: Call, exchange: Exchange) -> Reply:
        """Send a call and wait for its answer. Raises UpstreamError, and Unauthorized without a credential."""
        worker, endpoint = placement.worker, call.endpoint
        _require_credential(self._http.link(worker), exchange)
        try:
            return await self._http.send_body(
                worker, call, call.body, exchange, path=endpoint.path, content_type=endpoint.content_type
            )
        except UpstreamError as error:
            raise _failed(error) from error

    async def open(self, worker: Worker, call: Call, exchange: Exchange, offer: Offer) -> Handshake:
        """Ask a worker for a session, as `send` does. Whether its answer grants it is for the caller to see."""
        link = self._http.link(worker)
        _require_credential(link, exchange)
        key = key_of(os.urandom(_NONCE_BYTES))
        target = with_model(call.endpoint.path, call.model or "")
        parts = head_lines(link, link.get_head(target) + request_lines(offer, key), exchange)
        parts.append(b"\r\n")
        try:
            connection, reply = await link.pool.upgrade(b"".join(parts), self._loop.time() + HANDSHAKE_SECS)
        except UpstreamError as error:
            raise _failed(error) from error
        return Handshake(key, connection, reply)


def _require_credential(link: Link, exchange: Exchange) -> None:
    if not link.authorization and not exchange.headers.get(b"authorization"):
        raise Unauthorized("the request has no Authorization, and its worker no key of its own")


def _failed(error: UpstreamError) -> UpstreamError:
    """What a failure is on these routes."""
    if isinstance(error, UpstreamTimeout):
        return error
    return UpstreamError("realtime_request_failed", error.message)
