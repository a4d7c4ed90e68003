"""Sending what belongs to the Realtime API: the upgrade that begins a session, and the HTTP calls beside it.

Unlike other calls they must have a credential, the caller's or the worker's own key: a realtime engine without one
would hand out sessions, and secrets, to whoever asks.
"""

from __future__ import annotations

import asyncio
import os

from smg.errors import Unauthorized, UpstreamError, UpstreamTimeout
from smg.fleet.placement import Placement
from smg.fleet.worker import Worker
from smg.net.exchange import Exchange
from smg.net.http1.codec import SWITCHING_PROTOCOLS
from smg.net.reply import Reply
from smg.protocol.realtime import with_model
from smg.protocol.websocket import NoHandshake, answer_lines, key_of, request_lines
from smg.serving.call import Call
from smg.serving.session import Session
from smg.serving.upstreams.http import HttpUpstream, Link

# From the first packet to the worker until its answer.
HANDSHAKE_SECS = 10.0
_NONCE_BYTES = 16


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
        link = self._http.link(worker)
        if not link.is_authorized(endpoint, exchange):
            raise Unauthorized("the request has no Authorization, and its worker no key of its own")
        try:
            if call.session is not None:
                return await self._open(link, call, call.session, exchange)
            return await self._http.send_body(
                worker, call, call.body, exchange, path=endpoint.path, content_type=endpoint.content_type
            )
        except UpstreamError as error:
            raise _failed(error) from error

    async def _open(self, link: Link, call: Call, session: Session, exchange: Exchange) -> Reply:
        """Ask a worker for a session. Raises UpstreamError also for a 101 that is no handshake."""
        key = key_of(os.urandom(_NONCE_BYTES))
        target = with_model(call.endpoint.path, call.model or "")
        parts = link.head_lines(link.get_head(target) + request_lines(session.offer, key), call.endpoint, exchange)
        parts.append(b"\r\n")
        connection, reply = await link.pool.upgrade(b"".join(parts), self._loop.time() + HANDSHAKE_SECS)
        if reply.status == SWITCHING_PROTOCOLS:
            try:
                session.grant(answer_lines(session.offer, key, reply.head.fields), connection)
            except NoHandshake as error:
                reply.close()
                message = f"the worker's answer is no handshake: {error.reason}"
                raise UpstreamError("realtime_request_failed", message) from None
        return reply


def _failed(error: UpstreamError) -> UpstreamError:
    """What a failure is on these routes."""
    if isinstance(error, UpstreamTimeout):
        return error
    return UpstreamError("realtime_request_failed", error.message)
