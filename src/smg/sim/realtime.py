"""`GET /v1/realtime`: sessions on WebSockets, each with a conversation and at most one response at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from smg.net.exchange import Exchange
from smg.net.http1.connection import ServerConnection
from smg.protocol.failures import FormFailure
from smg.protocol.realtime import model_in
from smg.protocol.websocket import NoHandshake, accept_of, offer_of
from smg.sim import frames
from smg.sim.conversation import CANCEL, RESPOND, Conversation, Event
from smg.sim.dialect import TEXT, SimError
from smg.sim.fault_carrier import FaultCarrier
from smg.sim.faults import Fault
from smg.sim.inference import Inference
from smg.sim.realtime_form import RealtimeForm

_SUBPROTOCOL = b"realtime"
_INTERNAL_ERROR = 1011


async def serve(exchange: Exchange, inference: Inference, fault: Fault | None) -> None:
    """Serve one session to its end. A `fault` that shapes answers shapes all its responses. Raises SimError."""
    try:
        offer = offer_of(exchange.headers, http10=exchange.head.http10)
    except NoHandshake as error:
        exchange.answer(error.status, error.reason.encode(), TEXT, headers=error.headers)
        return
    try:
        model = model_in(exchange.query)
    except FormFailure as error:
        raise SimError(400, error.message, "model") from None
    if not model:
        raise SimError(400, "the query must name the model", "model")
    conversation = inference.conversation(model)
    lines = [b"upgrade: websocket", b"connection: Upgrade", b"sec-websocket-accept: " + accept_of(offer.key)]
    if _SUBPROTOCOL in [name.strip() for name in offer.protocols.split(b",")]:
        lines.append(b"sec-websocket-protocol: " + _SUBPROTOCOL)
    await Session(exchange.switch(b"".join([line + b"\r\n" for line in lines])), conversation, inference, fault).run()


class Session(asyncio.Protocol):
    """The server's end of one WebSocket."""

    transport: asyncio.Transport

    def __init__(
        self, wire: ServerConnection, conversation: Conversation, inference: Inference, fault: Fault | None
    ) -> None:
        self.transport = wire.transport
        self._wire = wire
        self._conversation = conversation
        self._inference = inference
        self._fault = fault
        self._reader = frames.FrameReader()
        # What speaks, and what sees it to its end.
        self._work: asyncio.Task[None] | None = None
        self._response: asyncio.Task[None] | None = None
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Serve until the connection is gone."""
        early = self._wire.switch(self)
        try:
            if self._wire.lost:
                return
            self.say(self._conversation.greeting())
            if early:
                self.data_received(early)
            await self._over
        finally:
            self.transport.abort()
            await self._end_response()

    async def _end_response(self) -> None:
        if self._response is not None and self._work is not None:
            self._work.cancel()
            self._response.cancel()
            await asyncio.gather(self._response, return_exceptions=True)

    # --- events of the transport

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._reader.feed(data):
                self._take(message)
        except frames.FrameError as error:
            self.close(error.code, str(error))

    def pause_writing(self) -> None:
        self.transport.pause_reading()  # who does not listen is not heard

    def resume_writing(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  the reason does not matter
        self._wire.switched_off()
        if not self._over.done():
            self._over.set_result(None)

    # --- what is said

    def say(self, event: Event) -> None:
        """Send an event."""
        self.send(msgspec.json.encode(event))

    def send(self, text: bytes) -> None:
        """Send a text message."""
        if not self.transport.is_closing():
            self.transport.write(frames.frame(frames.TEXT, text))

    def close(self, code: int, reason: str = "") -> None:
        """Say goodbye and leave."""
        if not self.transport.is_closing():
            self.transport.write(frames.closing(code, reason))
            self.transport.close()

    # --- what the client says

    def _take(self, message: frames.Message) -> None:
        if self.transport.is_closing():
            return
        match message.opcode:
            case frames.PING:
                self.transport.write(frames.frame(frames.PONG, message.payload))
            case frames.CLOSE:
                self.transport.write(frames.frame(frames.CLOSE, message.payload[:2]))
                self.transport.close()
            case frames.TEXT:
                self._follow(message.payload)
            case frames.BINARY:
                self.close(1003, "events are text")

    def _follow(self, payload: bytes) -> None:
        about: object = None
        try:
            event = msgspec.json.decode(payload, type=dict[str, Any])
            about = event.get("event_id")
            for answer in self._answers(event):
                self.say(answer)
        except msgspec.DecodeError as error:
            self.say(self._conversation.error(SimError(400, f"an event is a JSON object: {error}")))
        except SimError as error:
            self.say(self._conversation.error(error, about))

    def _answers(self, event: Event) -> list[Event]:
        busy = self._response is not None and not self._response.done()
        if event.get("type") == RESPOND:
            if busy:
                raise SimError(400, "the conversation has an active response")
            self._respond(self._conversation.chat(event))
            return []
        if event.get("type") == CANCEL:
            if not busy or self._work is None:
                raise SimError(400, "there is no active response")
            self._work.cancel()
            return []
        return self._conversation.take(event)

    def _respond(self, chat: bytes) -> None:
        call, id_ = self._inference.spoken(chat)
        form, line = RealtimeForm(self._conversation, call, id_), Line(self)
        carrier = None if self._fault is None else FaultCarrier(self._fault, line)
        loop, reply = asyncio.get_running_loop(), line if carrier is None else carrier
        self._work = loop.create_task(self._inference.speak(call, id_, form, reply))
        if carrier is not None:
            carrier.work = self._work
        self._response = loop.create_task(self._finish(self._work, form, line, carrier))

    async def _finish(
        self, work: asyncio.Task[None], form: RealtimeForm, line: Line, carrier: FaultCarrier | None
    ) -> None:
        """See a response to its end, whatever ends it."""
        cancelled = False
        try:
            await work
        except asyncio.CancelledError:
            cancelled = True
        if carrier is not None and carrier.cut:
            self.close(_INTERNAL_ERROR)
        elif cancelled:
            line.write(form.cancelled())
        elif carrier is not None:
            await carrier.settle()


class Line:
    """What responses write their events to: a message each."""

    streaming = True

    def __init__(self, session: Session) -> None:
        self._session = session

    def answer(self, status: int, body: bytes = b"", content_type: bytes = b"application/json") -> None:
        """Responses come in pieces."""
        raise NotImplementedError

    def start(self, status: int, content_type: bytes = b"text/event-stream") -> None:
        """A session has begun already."""

    def write(self, piece: bytes) -> None:
        """Send the events of a piece."""
        for event in piece.split(b"\n\n"):
            if event:
                self._session.send(event)

    def end(self) -> None:
        """The session goes on."""

    def abort(self) -> None:
        """Cut the connection."""
        self._session.transport.abort()

    async def drain(self) -> None:
        """Nothing waits here."""
