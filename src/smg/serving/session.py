"""A WebSocket on its way to a worker: what the client offers, then what the worker granted, then the tunnel."""

from __future__ import annotations

from smg.net.exchange import Exchange
from smg.net.http1.client import UpstreamConnection
from smg.net.tunnel import Tunnel, Tunnels
from smg.protocol.websocket import Offer


class Session:
    """One session that a client asks for. `offer` is its handshake."""

    __slots__ = ("_connection", "_lines", "_tunnels", "offer")

    def __init__(self, offer: Offer, tunnels: Tunnels) -> None:
        self.offer = offer
        self._tunnels = tunnels
        self._lines = b""
        self._connection: UpstreamConnection | None = None

    @property
    def is_granted(self) -> bool:
        """Whether a worker has."""
        return self._connection is not None

    def grant(self, lines: bytes, connection: UpstreamConnection) -> None:
        """A worker grants it on this connection; `lines` are those of the answer to the client."""
        self._lines = lines
        self._connection = connection

    async def relay(self, exchange: Exchange, routed_line: bytes) -> None:
        """Answer the client, and carry bytes both ways until both ends are gone."""
        assert self._connection is not None
        tunnel = Tunnel(self._tunnels, exchange.switch(self._lines + routed_line), self._connection)
        try:
            await tunnel.run()
        finally:
            exchange.body.size = tunnel.client.moved
            exchange.bytes_out = tunnel.worker.moved
