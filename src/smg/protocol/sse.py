"""Server-sent events that the gateway adds to a worker's stream, and where it may add them.

Streams are relayed as bytes; nobody parses the events. The few bytes at the end of what was sent tell
whether an event is half sent (WHATWG HTML, "Server-sent events": a line ends with LF, CR or CRLF, an event
with a blank line).
"""

from __future__ import annotations

import msgspec

KEEP_ALIVE = b": ping\n\n"
"""A comment, which clients skip. Only to be sent at a boundary."""

DONE = b"data: [DONE]\n\n"

TAIL_BYTES = 3
"""How much of a stream's end `at_boundary` looks at."""

# After a blank line, however its end and the end of the line before are spelled. A lone CR may turn out to
# be the half of a CRLF; what comes between the halves makes the LF another blank line, which means nothing.
_BLANK_LINES = (b"\n\n", b"\r\r", b"\n\r", b"\n\r\n", b"\r\r\n")


# What closes an event after an unfinished line, and after a finished one: no blank line too many, because some
# clients split at every blank line and take the first name of what follows.
_CLOSING = (b"\n\n", b"\n")


def at_boundary(tail: bytes) -> bool:
    """Whether a stream that ends with `tail` is between two events. `tail` is its last `TAIL_BYTES` or more.

    An empty tail is a stream that has not begun.
    """
    return not tail or tail.endswith(_BLANK_LINES)


def broken_stream(message: str, tail: bytes, *, kind: str = "stream_error") -> bytes:
    """What to send when a stream broke after `tail`: one error event, then the end that clients wait for.

    An event that is half sent is closed first, so that the error stands in an event of its own.
    """
    error = msgspec.json.encode({"error": {"message": message, "type": kind}})
    return closing(tail) + b"data: " + error + b"\n\n" + DONE


def closing(tail: bytes) -> bytes:
    """What closes the event that a stream which ends with `tail` is in the middle of; nothing between two."""
    return b"" if at_boundary(tail) else _CLOSING[tail.endswith(b"\n")]
