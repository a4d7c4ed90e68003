"""The bytes that travel: the requests of the load generator and the answers of the fake engines, made once.

Both ends of a benchmark must cost little next to the gateway between them, so everything here is ready-made
and what is read back is found with plain byte searches. Pacing and counting belong to the processes using it.
"""

import base64
import hashlib
import json
import socket
import struct
from collections.abc import Mapping, Sequence

HEAD_END = b"\r\n\r\n"
# Control routes of the fake engines, below their root.
CONTROL_PATH = "bench/control"
LARGE_PATH = "bench/large"
# Says how long the slowest control call took since it was asked the last time, in seconds.
SLOWEST_PATH = "bench/slowest_control_secs"
LAST_CHUNK = b"0\r\n\r\n"
MODEL = "bench-model"
# What a stream's client counts: one a data event, the closing [DONE] excluded.
EVENT_MARK = b"data: {"

_LINE = 'The quick brown fox said "jump" over the lazy dog, and 42 other dogs were watching it closely.\n'


def content_length(head: bytes) -> int | None:
    """The announced body length of a message head in any letter case, None when there is none."""
    at = head.find(b"ontent-length:")
    if at < 0:
        head = head.lower()
        at = head.find(b"ontent-length:")
        if at < 0:
            at = head.find(b"ontent-length :")
            if at < 0:
                return None
    stop = head.find(b"\r\n", at)
    return int(head[head.index(b":", at) + 1 : stop if stop >= 0 else len(head)])


def is_chunked(head: bytes) -> bool:
    return b"transfer-encoding: chunked" in head.lower()


def answer(body: bytes, status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def chunk(data: bytes) -> bytes:
    """One piece of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _event(delta: dict[str, str], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return b"data: " + _json({**_HEADER, "object": "chat.completion.chunk", "choices": [choice]}) + b"\n\n"


_HEADER = {"id": "chatcmpl-7d1f3c52a9e84b06", "created": 1_700_000_000, "model": MODEL}
_MESSAGE = {"role": "assistant", "content": "Benchmarks compare; they do not measure anything in isolation."}
CHAT_ANSWER = answer(
    _json(
        {
            **_HEADER,
            "object": "chat.completion",
            "choices": [{"index": 0, "message": _MESSAGE, "logprobs": None, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 21, "completion_tokens": 12, "total_tokens": 33},
        }
    )
)
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
)
FIRST_EVENT = chunk(_event({"role": "assistant", "content": ""}))
NEXT_EVENT = chunk(_event({"content": " benchmark"}))
STREAM_END = chunk(_event({}, "stop")) + chunk(b"data: [DONE]\n\n") + LAST_CHUNK

NOT_FOUND = answer(b'{"detail":"Not Found"}', "404 Not Found")
# What a registering gateway asks a worker; every other path answers 404, as an engine without the route does.
HEALTH_ANSWERS = {b"/health": answer(b"{}")}
PROBE_ANSWERS = {
    **HEALTH_ANSWERS,
    b"/v1/models": answer(
        _json(
            {
                "object": "list",
                "data": [{"id": MODEL, "object": "model", "owned_by": "sglang", "root": MODEL}],
            }
        )
    ),
    b"/server_info": answer(_json({"model_path": MODEL, "served_model_name": MODEL, "tp_size": 1, "dp_size": 1})),
    b"/model_info": answer(_json({"model_path": MODEL, "is_generation": True})),
}


CONTROL_ANSWER = answer(b'{"success":true}')
LARGE_ANSWER = answer(_json("x" * ((1 << 20) - 2)))


def document(size: int, seed: int) -> str:
    """So many characters of text, distinct by `seed` from the first line on."""
    return (f"Document {seed}.\n" + _LINE * (size // len(_LINE) + 1))[:size]


def chat_body(
    *,
    stream: bool = False,
    prompt_bytes: int = 0,
    seed: int = 0,
    messages: Sequence[Mapping[str, str]] = (),
    max_tokens: int = 256,
) -> bytes:
    """A chat request; `prompt_bytes` makes its message a document of that size, unless it is given `messages`."""
    text = document(prompt_bytes, seed) if prompt_bytes else "Write one sentence about benchmarks."
    return _json(
        {
            "model": MODEL,
            "stream": stream,
            "messages": messages
            or [{"role": "system", "content": "You are terse."}, {"role": "user", "content": text}],
            "max_tokens": max_tokens,
            "temperature": 0.7,
            "top_p": 0.95,
        }
    )


def chat_request(port: int, body: bytes) -> bytes:
    return request("POST", "/v1/chat/completions", port, body)


def fan_out(path: str, port: int) -> bytes:
    """A trainer's control call to all engines."""
    return request("POST", f"/v1/rl/engine/{path}?selector=worker_type%3Dregular", port, b"{}")


def request(method: str, path: str, port: int, body: bytes = b"") -> bytes:
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: */*\r\n"
        f"User-Agent: bench/1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


# --- realtime sessions: the little of WebSocket that it takes

REALTIME_PATH = "/v1/realtime"
TEXT, BINARY = 1, 2
REALTIME_BYTES = 64 * 1024
REALTIME_PAYLOAD = bytes(range(256)) * (REALTIME_BYTES // 256)
# The first message of a session: which way the frames go.
SAY_DOWN, SAY_UP = b"down", b"up"
_KEY = base64.b64encode(bytes(16))
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_LONG, _LONGER = 126, 127
_MASKED = 0x80


def realtime_request(port: int) -> bytes:
    return (
        f"GET {REALTIME_PATH}?model={MODEL} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer bench\r\n"
        f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {_KEY.decode()}\r\n\r\n"
    ).encode()


def realtime_grant(head: bytes) -> bytes:
    """The 101 to a handshake."""
    at = head.lower().index(b"sec-websocket-key:")
    key = head[at:].split(b"\r\n", 1)[0].partition(b":")[2].strip()
    accept = base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: %b\r\n\r\n" % accept
    )


def realtime_frame() -> bytes:
    """A worker's frame, which has no mask."""
    return _frame_head(BINARY, REALTIME_BYTES, 0) + REALTIME_PAYLOAD


def masked(opcode: int, payload: bytes) -> bytes:
    """A client's frame, whose mask of zeros leaves it readable."""
    return _frame_head(opcode, len(payload), _MASKED) + bytes(4) + payload


def _frame_head(opcode: int, size: int, mask: int) -> bytes:
    first = 0x80 | opcode
    if size < _LONG:
        return struct.pack("!BB", first, mask | size)
    if size < 1 << 16:
        return struct.pack("!BBH", first, mask | _LONG, size)
    return struct.pack("!BBQ", first, mask | _LONGER, size)


def read_message(sock: socket.socket) -> bytes:
    """The payload of the next frame, whatever its mask."""
    size = _exactly(sock, 2)[1]
    mask, size = size & _MASKED, size & ~_MASKED
    if size == _LONG:
        (size,) = struct.unpack("!H", _exactly(sock, 2))
    elif size == _LONGER:
        (size,) = struct.unpack("!Q", _exactly(sock, 8))
    key = _exactly(sock, 4) if mask else bytes(4)
    payload = _exactly(sock, size)
    return bytes(byte ^ key[at % 4] for at, byte in enumerate(payload))


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = sock.recv(size - len(data))
        if not piece:
            raise ConnectionError("the connection ended")
        data += piece
    return data
