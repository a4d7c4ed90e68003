"""One HTTP/2 connection to a worker: many streams, each with an exchange of its own. The protocol is h2's business.

A connection is ready when the worker's settings are there; before, nothing is sent on it. What goes wrong on a stream
ends that stream; what breaks the connection's own rules ends all of them. A worker that is leaving (GOAWAY) finishes
the streams it has begun.

The window of the whole connection is given back as soon as data arrives, that of a stream only as its reader keeps up:
a slow reader holds back its own stream and none of the others, and keeps at most one window of a stream in memory.

Deadlines are stamps that the pool's sweep compares; see `net/sweep.py`. The sweep also asks a worker that has been
silent for long whether it is there. Until it answers, it gets no new stream here; those under way wait for their
deadlines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    InformationalResponseReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import H2Error
from h2.settings import SettingCodes, Settings

from smg.errors import GatewayError, UpstreamError
from smg.net.body import Upload
from smg.net.http1.client import LostBeforeAnswer
from smg.net.http1.codec import ProtocolError
from smg.net.http2.failures import NeverSent, NotHttp2
from smg.net.http2.fields import Fields, response_head, sendable
from smg.net.http2.frames import FrameError, Goaway, Splitter
from smg.net.http2.stream import Stream
from smg.net.reply import Reply

# Nobody sends so many frames that carry nothing between two sweeps, unless to keep us busy.
MAX_IDLE_TALK = 2000
# Headers and acknowledgements for a worker that does not read; bodies wait elsewhere.
MAX_UNSENT_BYTES = 16 << 20
# Silence, with streams open, after which a worker is asked whether it is there; and how long it may take to say so.
SILENCE_SECS = 10.0
_LAST_STREAM_ID = 2**31 - 3
_FIRST_WINDOW_BYTES = 65535


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """`streams` at once on one connection, if the worker allows as many, over at most `connections`.

    h2 goes through all streams of a connection whenever one begins, so more connections are cheaper than more streams.
    """

    streams: int = 100
    connections: int = 64
    stream_window_bytes: int = 256 * 1024
    connection_window_bytes: int = 4 << 20


class Owner(Protocol):
    """Who keeps the connection."""

    def freed(self, connection: Connection) -> None:
        """It may take another stream."""

    def forget(self, connection: Connection) -> None:
        """It is gone."""


class Connection(asyncio.Protocol):
    """One connection to a worker. `ready` is done when streams may begin, or why they may not."""

    __slots__ = (
        "_asked_at",
        "_due",
        "_goaway",
        "_h2",
        "_heard",
        "_heard_at",
        "_leaving",
        "_limits",
        "_loop",
        "_owner",
        "_peer_streams",
        "_splitter",
        "_streams",
        "_suspect",
        "_uploads",
        "_writable",
        "broken",
        "claimed",
        "idle_since",
        "ready",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(self, owner: Owner, loop: asyncio.AbstractEventLoop, limits: StreamLimits) -> None:
        self._owner = owner
        self._loop = loop
        self._limits = limits
        # Header lists are checked by `fields.py`: h2 would end the connection for what is one stream's fault.
        self._h2 = H2Connection(
            H2Configuration(client_side=True, validate_inbound_headers=False, validate_outbound_headers=False)
        )
        self._h2.local_settings = Settings(
            client=True,
            initial_values={
                SettingCodes.ENABLE_PUSH: 0,
                SettingCodes.INITIAL_WINDOW_SIZE: limits.stream_window_bytes,
                SettingCodes.MAX_HEADER_LIST_SIZE: H2Connection.DEFAULT_MAX_HEADER_LIST_SIZE,
            },
        )
        self._splitter = Splitter()
        self._streams: dict[int, Stream] = {}
        self._uploads: dict[int, Stream] = {}
        self._peer_streams = limits.streams
        self._due = 0
        self._writable = True
        self._heard = 0
        self._heard_at = self._asked_at = 0.0
        self._leaving = self._goaway = self._suspect = False
        self.broken = False
        self.claimed = 0
        self.idle_since = loop.time()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.ready.add_done_callback(lambda ready: ready.cancelled() or ready.exception())

    # --- exchanges

    async def send(self, fields: Fields, deadline: float, body: Upload | None = None, content: bytes = b"") -> Reply:
        """Send a request and wait for the head of its answer. `deadline` is on the loop's clock, 0 for none.

        `fields` begin with the pseudo-headers; `content` or a piped `body` follow. Raises LostBeforeAnswer,
        UpstreamError or UpstreamTimeout; cancelling resets the stream.
        """
        stream = self._open(fields, deadline, bodyless=body is None and not content)
        if content:
            stream.carry(content)
        elif body is not None:
            stream.pipe(body, self._loop.time())
        self._flush()
        return await stream.answer()

    def _open(self, fields: Fields, deadline: float, *, bodyless: bool) -> Stream:
        if self.broken or self._leaving:
            raise NeverSent
        stream_id = self._h2.get_next_available_stream_id()
        try:
            self._h2.send_headers(stream_id, sendable(fields), end_stream=bodyless)
        except H2Error:
            self.retire()
            raise NeverSent from None
        stream = Stream(self, stream_id, self._loop, deadline, self._limits.stream_window_bytes)
        stream.heard = self._heard
        if not self._streams:
            self._heard_at = self._loop.time()
        self._streams[stream_id] = stream
        if stream_id >= _LAST_STREAM_ID:
            self._leaving = True
        return stream

    @property
    def room(self) -> int:
        """How many more streams may begin."""
        if self.broken or self._leaving or self._suspect:
            return 0
        return min(self._peer_streams, self._limits.streams) - len(self._streams) - self.claimed

    @property
    def idle(self) -> bool:
        """Whether no exchange is under way, or about to be."""
        return not self._streams and not self.claimed

    # --- what streams ask for

    def send_body(self, stream: Stream) -> None:
        self._uploads[stream.id] = stream
        self._send_bodies()

    def widen(self, stream: Stream, size: int) -> None:
        if not self.broken:
            with suppress(H2Error, KeyError):  # the peer may have ended the stream already
                self._h2.increment_flow_control_window(size, stream.id)
            self._flush()

    def drop(self, stream: Stream, *, reset: bool) -> None:
        if self._streams.pop(stream.id, None) is None:
            return
        self._uploads.pop(stream.id, None)
        if reset and not self.broken:
            with suppress(H2Error):
                self._h2.reset_stream(stream.id, ErrorCodes.CANCEL)
            self._flush()
        if not self._streams:
            self.idle_since = self._loop.time()
        if self._leaving:
            self.retire()
        self._owner.freed(self)

    # --- events of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's transports only look like one
        ssl_object = transport.get_extra_info("ssl_object")
        if ssl_object is not None and ssl_object.selected_alpn_protocol() != "h2":
            self._end(lambda _: NotHttp2("it chose another protocol"))
            return
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(self._limits.connection_window_bytes - _FIRST_WINDOW_BYTES)
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._heard += 1
        self._heard_at = self._loop.time()
        try:
            for part in self._splitter.feed(data):
                if isinstance(part, Goaway):
                    self._take_goaway(part)
                else:
                    self._take_frames(part)
                if self.broken:
                    return
        except FrameError as error:
            self._break(error.reason, foreign=error.foreign)
        except H2Error as error:
            self._break(str(error) or type(error).__name__)
        else:
            if self._splitter.idle_talk > MAX_IDLE_TALK:
                self._break("more frames without content than anybody needs")
            self._flush()
            if self._suspect:
                self._suspect = False
                self._owner.freed(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  the transport's call
        self._end(self._lost)
        self._owner.forget(self)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._send_bodies()
        self._flush()

    # --- what the worker says

    def _take_frames(self, data: bytes) -> None:
        for event in self._h2.receive_data(data):
            take = _TAKERS.get(event.__class__)
            if take is not None:
                take(self, event)
                if self.broken:
                    return

    def _take_settings(self, _event: RemoteSettingsChanged) -> None:
        self._peer_streams = int(self._h2.remote_settings.max_concurrent_streams)
        if not self.ready.done():
            self.ready.set_result(None)
        self._send_bodies()
        self._owner.freed(self)

    def _take_interim(self, event: InformationalResponseReceived) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            stream.begun = True

    def _take_head(self, event: ResponseReceived) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is None:
            return
        try:
            head = response_head(event.headers)
        except ProtocolError as error:
            stream.fail(
                UpstreamError("call_upstream_request_error", f"the worker's answer is not HTTP: {error.reason}")
            )
        else:
            stream.take_head(head)

    def _take_data(self, event: DataReceived) -> None:
        size = event.flow_controlled_length
        self._due += size
        if self._due >= self._limits.connection_window_bytes // 2:
            due, self._due = self._due, 0
            self._h2.increment_flow_control_window(due)
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            stream.take_data(event.data, size, last=event.stream_ended is not None)

    def _take_end(self, event: StreamEnded) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            stream.end()

    def _take_reset(self, event: StreamReset) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is None:
            return
        if event.error_code == ErrorCodes.REFUSED_STREAM and not stream.answered and not stream.begun:
            self._leaving = True  # it has its reasons: what it refused goes to a fresh connection
            stream.fail(LostBeforeAnswer(), reset=False)
        elif stream.answered:
            stream.fail(UpstreamError("read_response_body_failed", "the worker broke its answer off"), reset=False)
        else:
            reason = f"the worker reset the request ({_name(event.error_code)})"
            stream.fail(UpstreamError("call_upstream_request_error", reason), reset=False)

    def _take_window(self, event: WindowUpdated) -> None:
        stream = self._streams.get(event.stream_id) if event.stream_id else None
        if stream is not None:
            stream.begun = True
        self._send_bodies()

    def _take_goaway(self, goaway: Goaway) -> None:
        self._leaving = self._goaway = True
        for stream in tuple(self._streams.values()):
            if stream.id > goaway.last_stream_id:
                stream.fail(LostBeforeAnswer(), reset=False)
        self.retire()

    # --- bodies going out

    def _send_bodies(self) -> None:
        """Send what the peer's windows and the kernel take, one frame of each stream in turn."""
        moved = True
        while moved and self._uploads and self._writable and not self.broken:
            moved = False
            for stream in tuple(self._uploads.values()):
                moved = self._send_piece(stream) or moved
            self._flush()

    def _send_piece(self, stream: Stream) -> bool:
        """Send the next frame of a body; False when there is none, or no window for it."""
        h2 = self._h2
        try:
            room = min(h2.local_flow_control_window(stream.id), h2.max_outbound_frame_size)
            if stream.outgoing and room <= 0:
                return False
            if not stream.outgoing and not stream.ended:
                del self._uploads[stream.id]
                return False
            piece, last = stream.next_piece(room)
            if last:
                del self._uploads[stream.id]
            if piece:
                h2.send_data(stream.id, piece, end_stream=last)
            else:
                h2.end_stream(stream.id)
        except H2Error:  # the peer ended the stream, which the next event will say
            self._uploads.pop(stream.id, None)
            return False
        stream.relieve(self._loop.time())
        return True

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data and not self.broken:
            self.transport.write(data)
            if not self._writable and self.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
                self._end(self._lost)

    # --- deadlines and ends

    def sweep(self, now: float) -> None:
        """Expire exchanges beyond their deadline, and see that the worker is there."""
        if self.broken:
            self.transport.abort()  # it was asked to close, and had its time
            return
        self._splitter.idle_talk = 0
        for stream in tuple(self._streams.values()):
            stream.expire(now)
        if self._streams and now - self._heard_at > SILENCE_SECS:
            self._ask(now)

    def _ask(self, now: float) -> None:
        if self._asked_at < self._heard_at:
            self._asked_at = now
            self._h2.ping(b"\0" * 8)
            self._flush()
        elif now - self._asked_at > SILENCE_SECS:
            self._suspect = True

    def retire(self) -> None:
        """Take no new stream, and close when the last one is over."""
        self._leaving = True
        if self._streams or self.broken:
            return
        with suppress(H2Error):
            self._h2.close_connection()
        self._flush()
        self.broken = True
        self.transport.close()

    def cut(self) -> None:
        """End the connection now, if there is one yet."""
        if hasattr(self, "transport"):
            self._end(self._lost)

    def _break(self, reason: str, *, foreign: bool = False) -> None:
        """The worker broke the rules: end the connection and say so."""
        self._flush()
        if foreign:
            self._end(lambda _: NotHttp2(reason))
        else:
            self._end(lambda stream: self._broken_rules(stream, reason))

    @staticmethod
    def _broken_rules(stream: Stream | None, reason: str) -> GatewayError:
        if stream is not None and stream.answered:
            return UpstreamError("read_response_body_failed", f"the worker broke its answer off: {reason}")
        return UpstreamError("call_upstream_request_error", f"the worker's answer is not HTTP/2: {reason}")

    def _lost(self, stream: Stream | None) -> GatewayError:
        """What the end of the connection means to a stream."""
        if stream is None:
            return UpstreamError("call_upstream_connection_failed", "the worker closed the connection at once")
        if stream.answered:
            return UpstreamError("read_response_body_failed", "the worker broke its answer off")
        # Only a request that crossed the end of a connection in use is sure to have been lost.
        if stream.id > 1 and stream.heard == self._heard and not self._goaway:
            return LostBeforeAnswer()
        return UpstreamError("call_upstream_request_error", "the worker closed the connection before it answered")

    def _end(self, error: Callable[[Stream | None], GatewayError]) -> None:
        if self.broken:
            return
        self.broken = True
        streams, self._streams = self._streams, {}
        self._uploads.clear()
        for stream in streams.values():
            stream.fail(error(stream), reset=False)
        if not self.ready.done():
            self.ready.set_exception(error(None))
        self.transport.abort()


def _name(code: ErrorCodes | int | None) -> str:
    return code.name if isinstance(code, ErrorCodes) else str(code)


_TAKERS: dict[type[Event], Callable[[Connection, Any], None]] = {
    DataReceived: Connection._take_data,  # noqa: SLF001  the table of the class above
    ResponseReceived: Connection._take_head,  # noqa: SLF001
    StreamEnded: Connection._take_end,  # noqa: SLF001
    StreamReset: Connection._take_reset,  # noqa: SLF001
    WindowUpdated: Connection._take_window,  # noqa: SLF001
    RemoteSettingsChanged: Connection._take_settings,  # noqa: SLF001
    InformationalResponseReceived: Connection._take_interim,  # noqa: SLF001
}
