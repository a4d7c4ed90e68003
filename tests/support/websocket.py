"""WebSockets by hand: handshakes, and frames put together and taken apart."""

import asyncio
import base64
import hashlib
import os
import struct

from support.waiting import within

PATH = "/v1/realtime"
TARGET = f"{PATH}?model=m"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
# That of RFC 6455, section 1.3.
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
UPGRADE = (
    "upgrade: websocket",
    "connection: Upgrade",
    "sec-websocket-version: 13",
    f"sec-websocket-key: {KEY}",
)
CREDENTIAL = "authorization: Bearer of-the-caller"


def accept_of(key):
    return base64.b64encode(hashlib.sha1(key.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode()


def frame(opcode, payload=b"", *, masked=False, last=True):
    """One frame; those of a client are masked."""
    first, bit = (0x80 if last else 0) | opcode, 0x80 if masked else 0
    if len(payload) < 126:
        head = bytes([first, bit | len(payload)])
    elif len(payload) < 1 << 16:
        head = struct.pack("!BBH", first, bit | 126, len(payload))
    else:
        head = struct.pack("!BBQ", first, bit | 127, len(payload))
    if not masked:
        return head + payload
    mask = os.urandom(4)
    return head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))


def close(code, reason=""):
    """The payload of a close frame."""
    return struct.pack("!H", code) + reason.encode()


async def grant(call, *headers, early=b"", accept=None):
    """Answer a call at a raw engine with a handshake."""
    accept = accept or accept_of(call.headers["sec-websocket-key"])
    lines = ["upgrade: websocket", "connection: Upgrade", f"sec-websocket-accept: {accept}", *headers]
    await call.write("\r\n".join(["HTTP/1.1 101 Whatever", *lines, "", ""]).encode() + early)


async def exactly(end, size):
    """The next bytes that a client or a call at an engine gets."""
    return await within(end.reader.readexactly(size))


# --- a tunnel that is full


def pattern(size):
    """So many bytes that show when one is missing or moved."""
    block = bytes(range(251))
    return (block * (size // 251 + 1))[:size]


async def fill(sender, side):
    """Send the pattern until the gateway reads no more of that side; returns how much was sent."""
    step, sent = 1 << 20, 0
    while not side.held:
        sender.writer.write(pattern(sent + step)[sent:])
        sent += step
        for _ in range(20):
            await asyncio.sleep(0)
        assert sent < 256 << 20
    return sent
