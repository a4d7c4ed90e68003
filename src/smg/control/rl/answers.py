"""What came of control calls, in the words of the contract: the envelope of an answer, and the report of a fan-out.

An engine's answer is not trusted. It is shown as JSON only if it says that it is JSON and every reader of JSON can read
it; then its bytes go into the envelope as they came, so that numbers keep their spelling. Anything else is a string.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import accumulate
from typing import Any, Final

import msgspec

from smg.control.rl.kept import Kept
from smg.control.rl.refusals import Refusal
from smg.fleet.worker import Worker
from smg.net.capture import Captured

MAX_NESTING: Final = 120
"""Many readers take 128 levels, and the report around an answer has a few of its own."""

LARGE_BYTES: Final = 64 * 1024
"""An answer of more than that is not read, kept or sent by the way."""

_GOOD: Final = range(200, 300)
_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_DIGITS_ALIKE: Final = bytes.maketrans(b"123456789E", b"000000000e")
_MANY_DIGITS: Final = b"0" * 200
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


@dataclass(frozen=True, slots=True)
class Answered:
    """An engine answered, whatever its status. `envelope` is the answer as JSON; times are of a monotonic clock."""

    worker: Worker
    status: int
    latency_ms: int
    envelope: bytes | Kept

    async def text(self) -> bytes:
        """The envelope, wherever it is."""
        return self.envelope if isinstance(self.envelope, bytes) else await self.envelope.read()

    @property
    def good(self) -> bool:
        return self.status in _GOOD


@dataclass(frozen=True, slots=True)
class Failed:
    """An engine was not asked, or no answer came."""

    worker: Worker
    refusal: Refusal


Outcome = Answered | Failed


def answered(worker: Worker, captured: Captured, latency_ms: int) -> Answered:
    """The outcome of a call that was answered."""
    envelope: dict[str, Any] = {
        "worker_id": worker.id,
        "url": worker.url,
        "status": captured.status,
        "latency_ms": latency_ms,
        "body": shown_body(captured),
    }
    if captured.truncated:
        envelope["body_truncated"] = True
    return Answered(worker, captured.status, latency_ms, msgspec.json.encode(envelope))


def shown_body(captured: Captured) -> msgspec.Raw | str:
    """An engine's body, ready to be encoded."""
    body = captured.body
    if not captured.truncated and announces_json(captured.content_type) and is_readable_json(body):
        return msgspec.Raw(body)
    return body.decode("utf-8", "replace")


def announces_json(content_type: bytes) -> bool:
    """Whether a content type is that of JSON, or of a format that is written in JSON."""
    kind = content_type.partition(b";")[0].strip().lower()
    return kind in {b"application/json", b"text/json"} or kind.endswith(b"+json")


def is_readable_json(body: bytes) -> bool:
    """Whether this is one JSON value with nothing in it that some readers refuse.

    Such things are lone surrogates, numbers beyond what a double or a long integer can hold, and very deep nesting.
    """
    try:
        msgspec.json.decode(body, type=msgspec.Raw)  # which makes nothing of it: a mebibyte can hold a lot of lists
        if not body.isascii():
            body.decode()
        if _may_hold_large_numbers(body):
            msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return body.count(b"[") + body.count(b"{") <= MAX_NESTING or _nesting(body) <= MAX_NESTING


def _may_hold_large_numbers(body: bytes) -> bool:
    """Whether a number may be beyond a double: hundreds of digits, or a positive exponent of three of them."""
    shape = body.translate(_DIGITS_ALIKE)
    return b"e000" in shape or b"e+000" in shape or _MANY_DIGITS in shape


def _nesting(body: bytes) -> int:
    brackets = _STRING.sub(b"", body).translate(None, _NOT_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a fan-out, one outcome a target."""

    outcomes: Sequence[Outcome]

    @property
    def total(self) -> int:
        return len(self.outcomes)

    @property
    def succeeded(self) -> int:
        return sum([isinstance(outcome, Answered) and outcome.good for outcome in self.outcomes])

    @property
    def complete(self) -> bool:
        """Whether every target did what was asked."""
        return self.succeeded == self.total

    @property
    def status(self) -> int:
        return (HTTPStatus.OK if self.complete else HTTPStatus.MULTI_STATUS).value

    @property
    def is_large(self) -> bool:
        """Whether it is better sent in pieces."""
        return any(isinstance(outcome, Answered) and len(outcome.envelope) > LARGE_BYTES for outcome in self.outcomes)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The report as JSON, piece by piece, its parts in the order of worker ids."""
        outcomes = sorted(self.outcomes, key=lambda outcome: outcome.worker.id)
        yield b'{"results":{'
        comma = b""
        for outcome in outcomes:
            if isinstance(outcome, Answered):
                yield b"%b%b:" % (comma, msgspec.json.encode(outcome.worker.id))
                yield await outcome.text()
                comma = b","
        rest = {
            "failed": [row for outcome in outcomes if (row := _failed_row(outcome)) is not None],
            "total": self.total,
            "succeeded": self.succeeded,
        }
        yield b"}," + msgspec.json.encode(rest)[1:]


def _failed_row(outcome: Outcome) -> dict[str, Any] | None:
    worker = outcome.worker
    row = {"worker_id": worker.id, "url": worker.url}
    if isinstance(outcome, Failed):
        refusal = outcome.refusal
        return row | {"error": refusal.code, "message": refusal.message} | refusal.context
    if outcome.good:
        return None
    return row | {"error": "upstream_error", "message": f"HTTP {outcome.status}", "status": outcome.status}
