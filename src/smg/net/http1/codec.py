"""HTTP/1.1 on the wire: message heads and body framing, in both directions. Sans I/O.

Heads are parsed strictly. Whatever two parsers could read differently (a bare CR or LF, a folded header, blanks around
a name, two lengths, a length beside a transfer coding) is refused, so that nothing a client sends can be one message
here and another at a worker. Bodies are decoded by `ChunkedDecoder`; sized bodies need no decoder.

The limits on heads live here; limits on bodies belong to whoever reads them.
"""

from __future__ import annotations

import re
from typing import TypeVar

T = TypeVar("T")

MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 256
SWITCHING_PROTOCOLS = 101
FINAL = 200  # the lowest status of an answer that no other follows
BODYLESS = frozenset({204, 304})  # answers whose head is all there is, whatever it says
MAX_TARGET_BYTES = 16 * 1024
MAX_CHUNK_LINE_BYTES = 4096
MAX_TRAILER_BYTES = 16 * 1024

# Control characters never belong in a line of a head, CR and LF included: together they end lines, and nothing else.
_CONTROLS = bytes(c for c in range(32) if c not in b"\t") + b"\x7f"
_TOKEN = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
# Method, path, query with its question mark, minor version: what any ordinary request begins with.
_PLAIN_REQUEST_LINE = re.compile(rb"([A-Z]+) (/[!-\"$->@-~]*)((?:\?[!-\"$-~]*)?) HTTP/1\.([01])")
_HEX_DIGITS = b"0123456789abcdefABCDEF"
_MAX_HEX_DIGITS = 15
_MAX_LENGTH_DIGITS = 18

# A header line as (lower-case name, value, the line itself).
Field = tuple[bytes, bytes, bytes]

# Lines repeat from message to message, so what they mean is kept, except where they hold secrets. What is kept was
# found to be legal.
_FIELDS: dict[bytes, Field] = {}
_MAX_FIELDS = 2048
_LONGEST_KEPT_LINE = 96
_NEVER_KEPT = frozenset(
    {b"authorization", b"proxy-authorization", b"cookie", b"set-cookie", b"x-api-key", b"x-goog-api-key"}
)
_REQUEST_LINES: dict[bytes, tuple[str, str, str, bool]] = {}
_STATUS_LINES: dict[bytes, tuple[int, bool]] = {}
# Many answers of the same second have one head, those to control calls and streams above all. Kept as a whole are heads
# with no line that is new, which those with a number of their own never are.
_RESPONSE_HEADS: dict[bytes, ResponseHead] = {}
_MAX_RESPONSE_HEADS = 256
_LONGEST_KEPT_HEAD = 512
_MAX_START_LINES = 512
_LEAST_STATUS = 100
# Chunk sizes repeat as well: the plain spelling of a size line -> the size, for chunks that can be relayed as they
# came. Smaller ones do not show whether an event stream is between two events.
_PLAIN_SIZES: dict[bytes, int] = {}
_MAX_PLAIN_SIZES = 4096
_LEAST_PLAIN_SIZE = 8
_PLAIN_LINE_BYTES = 8
# What of an answer's head says how to read on.
_FRAMING = frozenset({b"content-type", b"content-length", b"transfer-encoding", b"connection"})
# A second one of these would let two readers disagree about where the message goes or ends.
_ONCE = frozenset({b"host", b"content-length", b"transfer-encoding", b"content-type", b"expect"})


class ProtocolError(Exception):
    """The peer broke HTTP/1.1. `status` is what a client should be told before the connection closes."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


class RequestHead:
    """A parsed request head.

    `headers` has lower-case names; values of a repeated name are joined with a comma, as the standard allows.
    `content_length` is None without one; `chunked` excludes it.
    """

    __slots__ = (
        "chunked",
        "content_length",
        "expects_continue",
        "headers",
        "http10",
        "keep_alive",
        "method",
        "path",
        "query",
    )

    def __init__(self, method: str, path: str, query: str, headers: dict[bytes, bytes], *, http10: bool) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.http10 = http10
        self.keep_alive = _keeps_alive(headers, http10=http10)
        self.chunked = False
        self.content_length: int | None = None
        coding = headers.get(b"transfer-encoding")
        length = headers.get(b"content-length")
        if coding is not None:
            if coding.lower() != b"chunked":
                raise ProtocolError("unsupported transfer coding", 501)
            if length is not None or http10:
                raise ProtocolError("a transfer coding excludes a content length")
            self.chunked = True
        elif length is not None:
            self.content_length = _length(length)
        expect = headers.get(b"expect")
        self.expects_continue = expect is not None and expect.lower() == b"100-continue" and not http10


class ResponseHead:
    """A parsed response head. `fields` keeps names as sent, in order, repeated ones included.

    It may belong to several answers that were headed alike, so nobody changes it.
    """

    __slots__ = ("chunked", "content_length", "content_type", "fields", "keep_alive", "nominated", "status")

    def __init__(self, status: int, fields: list[Field], *, http10: bool) -> None:
        self.status = status
        self.fields = fields
        self.content_type = b""
        self.content_length: int | None = None
        self.chunked = False
        self.nominated: bytes | None = None
        for name, value, _ in fields:
            if name not in _FRAMING:
                continue
            if name == b"content-type":
                self.content_type = value
            elif name == b"content-length":
                length = _length(value)
                if self.content_length not in (None, length):
                    raise ProtocolError("contradicting content lengths")
                self.content_length = length
            elif name == b"transfer-encoding":
                if value.lower() != b"chunked" or self.chunked:
                    raise ProtocolError("unsupported transfer coding")
                self.chunked = True
            elif name == b"connection":
                lowered = value.lower()
                self.nominated = lowered if self.nominated is None else self.nominated + b"," + lowered
        tokens = self.nominated or b""
        self.keep_alive = (b"keep-alive" in tokens) if http10 else (b"close" not in tokens)
        if self.chunked and self.content_length is not None:
            # The coding wins, and the connection is not trusted with another exchange.
            self.content_length = None
            self.keep_alive = False


def parse_request_head(head: bytes) -> RequestHead:
    """Parse a head without its final blank line; raises ProtocolError with the status to answer."""
    lines = head.split(b"\r\n")
    method, path, query, http10 = _REQUEST_LINES.get(lines[0]) or _request_line(lines[0])
    if len(lines) - 1 > MAX_HEADERS:
        raise ProtocolError("too many headers", 431)
    headers: dict[bytes, bytes] = {}
    known = _FIELDS
    del lines[0]
    for line in lines:
        name, value, _ = known.get(line) or _field(line)
        if name in headers:
            if name in _ONCE:
                raise ProtocolError(f"repeated header {name.decode()}")
            headers[name] += b", " + value
        else:
            headers[name] = value
    if b"host" not in headers and not http10:
        raise ProtocolError("no Host header")
    return RequestHead(method, path, query, headers, http10=http10)


def parse_response_head(head: bytes) -> ResponseHead:
    """Parse a head without its final blank line. Each field is (lower-case name, value, the line as sent)."""
    kept = _RESPONSE_HEADS.get(head)
    if kept is not None:
        return kept
    lines = head.split(b"\r\n")
    status, http10 = _STATUS_LINES.get(lines[0]) or _status_line(lines[0])
    if len(lines) - 1 > MAX_HEADERS:
        raise ProtocolError("too many headers")
    known = _FIELDS
    del lines[0]
    familiar = len(head) <= _LONGEST_KEPT_HEAD and all(map(known.__contains__, lines))
    fields = [known.get(line) or _field(line) for line in lines]
    parsed = ResponseHead(status, fields, http10=http10)
    if familiar:
        _keep(_RESPONSE_HEADS, head, parsed, _MAX_RESPONSE_HEADS)
    return parsed


def split_response(data: bytes) -> tuple[ResponseHead, bytes] | None:
    """The head at the front of what a worker sent, and the bytes behind it; None while it is not whole."""
    end = data.find(b"\r\n\r\n")
    if end < 0 or end > MAX_HEAD_BYTES:
        if len(data) > MAX_HEAD_BYTES:
            raise ProtocolError("head too large")
        return None
    return parse_response_head(data[:end]), data[end + 4 :]


def _request_line(line: bytes) -> tuple[str, str, str, bool]:
    plain = _PLAIN_REQUEST_LINE.fullmatch(line)
    if plain is None or len(line) > MAX_TARGET_BYTES:
        return _odd_request_line(line)
    method, path, query, minor = plain.groups()
    parsed = method.decode("ascii"), path.decode("ascii"), query.decode("ascii")[1:], minor == b"0"
    if not query and len(line) <= _LONGEST_KEPT_LINE:
        _keep(_REQUEST_LINES, line, parsed, _MAX_START_LINES)
    return parsed


def _odd_request_line(line: bytes) -> tuple[str, str, str, bool]:
    """What a line means that is long or not quite like others, or what is wrong with it."""
    _check_characters(line)
    parts = line.split(b" ")
    if len(parts) != 3:  # noqa: PLR2004  method, target, version
        raise ProtocolError("malformed request line")
    method, target, version = parts
    if version not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise ProtocolError("unsupported version", 505 if version.startswith(b"HTTP/") else 400)
    if len(target) > MAX_TARGET_BYTES:
        raise ProtocolError("request target too long", 414)
    if (
        not method
        or method.translate(None, _TOKEN)
        or not target.isascii()
        or target[:1] not in (b"/", b"*")
        or b"#" in target
    ):
        raise ProtocolError("malformed request line")
    path, _, query = target.decode("ascii").partition("?")
    return method.decode("ascii"), path, query, version == b"HTTP/1.0"


def _status_line(line: bytes) -> tuple[int, bool]:
    _check_characters(line)
    code = line[9:12]
    status = int(code) if code.isdigit() else 0
    http10 = line.startswith(b"HTTP/1.0 ")
    if not (http10 or line.startswith(b"HTTP/1.1 ")) or status < _LEAST_STATUS or line[12:13] not in (b"", b" "):
        raise ProtocolError("not an HTTP/1.1 response")
    if len(line) <= _LONGEST_KEPT_LINE:
        _keep(_STATUS_LINES, line, (status, http10), _MAX_START_LINES)
    return status, http10


def _check_characters(line: bytes) -> None:
    if len(line.translate(None, _CONTROLS)) != len(line):
        raise ProtocolError("illegal character in the head")


def _field(line: bytes) -> Field:
    _check_characters(line)
    spelling, colon, value = line.partition(b":")
    if not colon or not spelling or spelling.translate(None, _TOKEN):
        raise ProtocolError("malformed header")
    field = spelling.lower(), value.strip(b" \t"), line
    if len(line) <= _LONGEST_KEPT_LINE and field[0] not in _NEVER_KEPT:
        _keep(_FIELDS, line, field, _MAX_FIELDS)
    return field


def _keep(known: dict[bytes, T], line: bytes, meaning: T, most: int) -> None:
    """Remember a line. A full memory starts over, so that whoever fills it with rubbish does not stay in it."""
    if len(known) >= most:
        known.clear()
    known[line] = meaning


def _length(value: bytes) -> int:
    if not value.isdigit() or len(value) > _MAX_LENGTH_DIGITS:
        raise ProtocolError("malformed content length")
    return int(value)


def _keeps_alive(headers: dict[bytes, bytes], *, http10: bool) -> bool:
    connection = headers.get(b"connection")
    if connection is None:
        return not http10
    tokens = [token.strip() for token in connection.lower().split(b",")]
    return b"keep-alive" in tokens if http10 else b"close" not in tokens


class ChunkedDecoder:
    """Decodes the chunked coding incrementally: `feed` returns the payload at hand, `done` tells the end.

    After the end, `rest` holds what followed the message. Extensions and trailers are read within bounds and dropped:
    they belong to this hop.
    """

    __slots__ = ("_held", "_left", "_trailer_bytes", "done", "rest")

    # `_left` beyond zero counts payload bytes; these are the other states.
    _SIZE = 0
    _AFTER_DATA = -1
    _TRAILERS = -2

    def __init__(self) -> None:
        self._left = self._SIZE
        self._held = b""
        self._trailer_bytes = 0
        self.done = False
        self.rest = b""

    @property
    def between_chunks(self) -> bool:
        """Whether the next byte begins a chunk."""
        return self._left == self._SIZE and not self._held

    def feed(self, data: bytes) -> bytes:  # noqa: C901, PLR0912  one state machine, one loop
        """Take the next bytes; returns the decoded payload among them. Raises ProtocolError on broken framing."""
        if self._held:
            data = self._held + data
            self._held = b""
        pieces: list[bytes] = []
        position, end = 0, len(data)
        while position < end or self._left == self._TRAILERS:
            left = self._left
            if left > 0:
                piece = data[position : position + left]
                pieces.append(piece)
                position += len(piece)
                self._left = left - len(piece) or self._AFTER_DATA
                continue
            if left == self._AFTER_DATA:
                if end - position == 1 and data[position] == 13:  # noqa: PLR2004  CR
                    break
                if data[position : position + 2] != b"\r\n":
                    raise ProtocolError("chunk longer than its size")
                position += 2
                self._left = self._SIZE
                continue
            line_end = data.find(b"\r\n", position)
            if line_end < 0:
                if end - position > MAX_CHUNK_LINE_BYTES + 1:  # its CR may be there already
                    raise ProtocolError("chunk header too long")
                break
            line = data[position:line_end]
            position = line_end + 2
            if left == self._SIZE:
                self._left = _chunk_size(line) or self._TRAILERS
            elif line:
                self._trailer_bytes += len(line)
                if self._trailer_bytes > MAX_TRAILER_BYTES or len(line) > MAX_CHUNK_LINE_BYTES:
                    raise ProtocolError("trailers too long")
                if b"\r" in line or b"\n" in line:
                    raise ProtocolError("malformed trailer")
            else:
                self.done = True
                self.rest = data[position:]
                break
        if not self.done and position < end:
            self._held = data[position:]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def whole_chunks_size(data: bytes) -> int:
    """The payload's size if `data` is whole chunks, all spelled as we would spell them; 0 for anything else.

    Such bytes can be relayed as they are. Only sizes that have been decoded before are known here.
    """
    total = start = 0
    end = len(data)
    while start < end:
        line_end = data.find(b"\r\n", start + 1, start + _PLAIN_LINE_BYTES)
        size = _PLAIN_SIZES.get(data[start:line_end], 0) if line_end > 0 else 0
        start = line_end + size + 4
        if not size or data[start - 2 : start] != b"\r\n":
            return 0
        total += size
    return total


def _chunk_size(line: bytes) -> int:
    digits = line
    if b";" in line:
        digits, _, extension = line.partition(b";")
        digits = digits.rstrip(b" \t")
        if len(line) > MAX_CHUNK_LINE_BYTES or b"\n" in extension or b"\r" in extension:
            raise ProtocolError("malformed chunk extension")
    if not digits or len(digits) > _MAX_HEX_DIGITS or digits.translate(None, _HEX_DIGITS):
        raise ProtocolError("malformed chunk size")
    size = int(digits, 16)
    if size >= _LEAST_PLAIN_SIZE and len(_PLAIN_SIZES) < _MAX_PLAIN_SIZES and line == b"%x" % size:
        _PLAIN_SIZES[line] = size
    return size
