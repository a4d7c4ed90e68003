"""The worker's answer on its way to the client: headers filtered, body whole or as it streams.

Event streams pass as bytes, each piece when it comes, with back-pressure in both directions; nothing in them is parsed.
Everything else is read whole first, within the payload limit, so that an answer cut short never looks complete.
"""

from __future__ import annotations

from smg.errors import UpstreamError
from smg.net.exchange import Exchange
from smg.net.http1.codec import ResponseHead
from smg.net.reply import Reply
from smg.net.routes import words_of
from smg.protocol.headers import DROPPED_RESPONSE_HEADERS, connection_nominated
from smg.services.tenant_limits import Charge

# Our own framing replaces the worker's length.
_DROPPED = DROPPED_RESPONSE_HEADERS | {b"content-length"}
EVENT_STREAM = b"text/event-stream"
_OK = 200
_MULTIPLE_CHOICES = 300


def is_stream(head: ResponseHead) -> bool:
    """Whether the answer is relayed as it comes: a successful event stream, whatever the request asked for."""
    return head.content_type.startswith(EVENT_STREAM) and _OK <= head.status < _MULTIPLE_CHOICES


def header_block(head: ResponseHead, routed_line: bytes) -> tuple[bytes, bool]:
    """The worker's end-to-end headers as lines, our own added; and whether a Date is among them."""
    lines = []
    dated = False
    nominated = connection_nominated(head.nominated) if head.nominated else ()
    for name, _, line in head.fields:
        if name in _DROPPED or name in nominated:
            continue
        if name == b"date":
            dated = True
        lines.append(line)
    lines.append(routed_line)
    return b"\r\n".join(lines), dated


def relay_whole(exchange: Exchange, reply: Reply, body: bytes, routed_line: bytes) -> None:
    """Answer with a body that has been read."""
    block, dated = header_block(reply.head, routed_line)
    exchange.relay(reply.status, block, body, dated=dated)


async def relay_stream(
    exchange: Exchange, reply: Reply, routed_line: bytes, charge: Charge | None = None
) -> UpstreamError | None:
    """Relay a stream to its end, which settles the charge.

    A stream that breaks gets an error event, and the error is returned.
    """
    block, dated = header_block(reply.head, routed_line)
    exchange.start_relay(reply.status, block, dated=dated)
    exchange.events = True
    exchange.on_writable = lambda writable: reply.unhold() if writable else reply.hold()
    broken: UpstreamError | None = None
    try:
        if charge is not None:
            await reply.pump(charge.tap(exchange.write))
            charge.ended()
        else:
            await reply.pump(exchange.write, exchange.write_chunk if exchange.takes_chunks else None)
    except UpstreamError as error:
        broken = error
        exchange.write(words_of(exchange).broken(error.message, exchange.tail))
    exchange.end()
    return broken
