"""Bytes both ways between a client and a worker whose connections have left HTTP.

What one end sends goes to the other as it came, without a task, a copy of ours or a look at what it says. Whoever reads
slowly holds the sender back: what waits in between is at most `BUFFER_BYTES` each way, and what one read brought.

    one end sends its last byte   the other is told so after all that came before; the way back stays open
    both did                      both connections are closed
    one end is gone               what it sent still reaches the other, whose connection is closed then
    we cut one of them            the other is cut as well

A tunnel may be silent for ever while both ends are there. Once one has ended or left, the rest must make progress
within `ENDING_SECS`, since an end that has crashed never answers.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol

from smg.net.http1.peer import has_left, has_reset
from smg.net.sweep import Sweeper

BUFFER_BYTES = 256 * 1024
ENDING_SECS = 30.0
SWEEP_SECS = 0.5
# A host that vanishes says nothing: the kernel asks after a minute of silence, and gives up after another.
KEEPALIVE_IDLE_SECS = 60
KEEPALIVE_INTERVAL_SECS = 15
KEEPALIVE_PROBES = 4


class Mouth(Protocol):
    """A connection that a tunnel takes over for good."""

    transport: asyncio.Transport

    def switch(self, protocol: asyncio.Protocol) -> bytes:
        """Let `protocol` have all further events; returns what came ahead of that."""

    def switched_off(self) -> None:
        """The connection is no more."""

    @property
    def lost(self) -> bool:
        """Whether it was no more before `switch`, so that no event will tell."""


class Side(asyncio.Protocol):
    """One end of a tunnel. `moved` counts the bytes that came from it."""

    __slots__ = ("_closing", "_mouth", "_tunnel", "_write", "ended", "gone", "held", "moved", "other", "transport")

    transport: asyncio.Transport
    other: Side

    def __init__(self, tunnel: Tunnel, mouth: Mouth) -> None:
        self._tunnel = tunnel
        self._mouth = mouth
        self._write: Callable[[bytes], None] = _drop
        self.transport = mouth.transport
        self.moved = 0
        self.held = False
        self.ended = False
        self.gone = False
        # Whether the end of the connection is our own doing, and wanted.
        self._closing = False

    def take_over(self) -> bytes:
        """Have the connection's events from here on; returns what came ahead of them."""
        self.transport.set_write_buffer_limits(BUFFER_BYTES)
        _keep_alive(self.transport)
        return self._mouth.switch(self)

    def begin(self, early: bytes) -> None:
        """Begin to relay, with what is here already. Both sides have their connections."""
        if not self.other.gone:
            self._write = self.other.transport.write
        if early:
            self.data_received(early)
        if self._mouth.lost:
            self._closing = True
            self.connection_lost(None)
        elif self.transport.is_closing():  # it ended a moment ago
            self._closing = self.ended = True

    # --- events of the transport

    def data_received(self, data: bytes) -> None:
        self.moved += len(data)
        self._write(data)

    def eof_received(self) -> bool:
        """This end sends no more; returns whether our side of its connection stays open."""
        self.ended = True
        self._tunnel.ended(self)
        stays = self.transport.can_write_eof() and not self.transport.is_closing()
        self._closing = self._closing or not stays
        return stays

    def pause_writing(self) -> None:
        self.other.hold()

    def resume_writing(self) -> None:
        self.other.unhold()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone = True
        self._mouth.switched_off()
        self._tunnel.lost(self, cut=exc is None and not self._closing)

    # --- what the other side asks for

    def hold(self) -> None:
        """Read no more for the moment."""
        if not self.held and not self.ended and not self.transport.is_closing():
            self.held = True
            self.transport.pause_reading()

    def unhold(self) -> None:
        """Read on."""
        if self.held:
            self.held = False
            if not self.transport.is_closing():
                self.transport.resume_reading()

    def end(self) -> None:
        """Tell this end that no more will come, once it has everything."""
        self.other.stop()
        if self.transport.is_closing():
            return
        if not self.transport.can_write_eof():  # TLS: there is no half of a connection to close
            self.close()
            return
        try:
            self.transport.write_eof()
        except OSError:  # it reset the connection a moment ago
            self.transport.abort()

    def close(self) -> None:
        """End this end's connection, once it has everything."""
        self._closing = True
        self.stop()
        self.other.stop()
        self.transport.close()

    def stop(self) -> None:
        """Relay nothing more from this end."""
        self._write = _drop


class Tunnel:
    """The two sides, from the switch to their end."""

    __slots__ = ("_done", "_progress", "_quiet_since", "_tunnels", "client", "worker")

    def __init__(self, tunnels: Tunnels, client: Mouth, worker: Mouth) -> None:
        self._tunnels = tunnels
        self.client = Side(self, client)
        self.worker = Side(self, worker)
        self.client.other, self.worker.other = self.worker, self.client
        self._done: asyncio.Future[None] = tunnels.loop.create_future()
        self._quiet_since = 0.0
        self._progress: tuple[int, ...] = ()

    async def run(self) -> None:
        """Relay until both connections have ended; cancelling cuts them."""
        self._tunnels.add(self)
        try:
            early = self.worker.take_over(), self.client.take_over()
            self.worker.begin(early[0])
            self.client.begin(early[1])
            await self._done
        finally:
            self._tunnels.discard(self)
            self.cut()

    def cut(self) -> None:
        """End both connections now."""
        for side in (self.client, self.worker):
            side.stop()
            if not side.gone:
                side.transport.abort()

    # --- what the sides report

    def ended(self, side: Side) -> None:
        self._begin_ending()
        if not side.other.gone:
            side.other.end()
        if side.other.ended:
            side.close()
            side.other.close()

    def lost(self, side: Side, *, cut: bool) -> None:
        other = side.other
        if other.gone:
            if not self._done.done():
                self._done.set_result(None)
        elif cut:
            self.cut()
        else:
            self._begin_ending()
            other.close()

    # --- deadlines

    def sweep(self, now: float) -> None:
        """Look after ends that cannot be heard, and after those that do not come to an end."""
        for side in (self.client, self.worker):
            if side.gone or not (side.held or side.ended):
                continue
            if has_reset(side.transport):
                self.cut()
                return
            if has_left(side.transport):
                self._begin_ending()
        if not self._quiet_since:
            return
        progress = self._reading()
        if progress != self._progress:
            self._progress = progress
            self._quiet_since = now
        elif now - self._quiet_since > ENDING_SECS:
            self.cut()

    def _begin_ending(self) -> None:
        if not self._quiet_since:
            self._quiet_since = self._tunnels.loop.time()

    def _reading(self) -> tuple[int, ...]:
        """What changes as long as something moves."""
        client, worker = self.client, self.worker
        unsent = [0 if side.gone else side.transport.get_write_buffer_size() for side in (client, worker)]
        return (client.moved, worker.moved, *unsent)


class Tunnels:
    """All tunnels of a gateway, swept by one timer."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._sweeper = Sweeper(self.loop, SWEEP_SECS)

    def add(self, tunnel: Tunnel) -> None:
        self._sweeper.add(tunnel)

    def discard(self, tunnel: Tunnel) -> None:
        self._sweeper.discard(tunnel)

    def __len__(self) -> int:
        return len(self._sweeper)

    def close(self) -> None:
        """The gateway ends."""
        self._sweeper.stop()


def _drop(_data: bytes) -> None:
    """Stand in for an end that takes nothing more."""


def _keep_alive(transport: asyncio.BaseTransport) -> None:
    sock = transport.get_extra_info("socket")
    if sock is None:
        return
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):  # not everywhere; the system's own times will do
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_SECS)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_SECS)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
    except OSError:
        return  # the connection is gone, which will be heard of
