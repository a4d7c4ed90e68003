"""What came of control calls, in the words of the contract: the envelope of an answer, and the report of a fan-out.

An engine's answer is not trusted. It is shown as JSON only if it says that it is JSON and every reader of JSON can read
it; then its bytes go into the envelope as they came, so that numbers keep their spelling. Anything else is a string.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from functools import lru_cache
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

_REMEMBERED_BYTES: Final = 256
_GOOD: Final = range(200, 300)
_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_DIGITS_ALIKE: Final = bytes.maketrans(b"123456789E", b"000000000e")
_MANY_DIGITS: Final = b"0" * 200
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


@dataclass(frozen=True, slots=True)
class Answered:
    """An engine answered after `took_secs`, whatever its status. `envelope` is the answer as JSON."""

    worker: Worker
    status: int
    took_secs: float
    envelope: bytes | Kept

    @property
    def latency_ms(self) -> int:
        """The time as the contract tells it."""
        return int(self.took_secs * 1000)

    async def text(self) -> bytes:
        """The envelope, wherever it is."""
        return self.envelope if isinstance(self.envelope, bytes) else await self.envelope.read()

    @property
    def good(self) -> bool:
        return self.status in _GOOD


@dataclass(frozen=True, slots=True)
class Failed:
    """An engine was not asked, or no answer came for `took_secs`."""

    worker: Worker
    refusal: Refusal
    took_secs: float = 0.0


Outcome = Answered | Failed


def answered(worker: Worker, captured: Captured, took_secs: float) -> Answered:
    """The outcome of a call that was answered."""
    envelope = b'{"worker_id":%b,"url":%b,"status":%d,"latency_ms":%d,"body":%b%b}' % (
        msgspec.json.encode(worker.id),
        msgspec.json.encode(worker.url),
        captured.status,
        int(took_secs * 1000),
        shown_body(captured.body, captured.content_type, cut=captured.truncated),
        b',"body_truncated":true' if captured.truncated else b"",
    )
    return Answered(worker, captured.status, took_secs, envelope)


def shown_body(body: bytes, content_type: bytes, *, cut: bool) -> bytes:
    """An engine's body as JSON. One that was cut is a string."""
    if len(body) <= _REMEMBERED_BYTES:
        return _shown_again(body, content_type, cut)
    return _shown(body, content_type, cut)


def _shown(body: bytes, content_type: bytes, cut: bool) -> bytes:  # noqa: FBT001  it is called in one place
    if not cut and announces_json(content_type) and is_readable_json(body):
        return body
    return msgspec.json.encode(body.decode("utf-8", "replace"))


# A fleet tends to answer in one voice, one fan-out after the other.
_shown_again = lru_cache(64)(_shown)


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


class Report:
    """What came of a fan-out, one outcome a target; its parts are in the order of worker ids."""

    def __init__(self, outcomes: Iterable[Outcome]) -> None:
        self._outcomes = sorted(outcomes, key=_worker_id)
        self._answers = [outcome for outcome in self._outcomes if isinstance(outcome, Answered)]
        self.total = len(self._outcomes)
        self.succeeded = sum([answer.good for answer in self._answers])

    @property
    def complete(self) -> bool:
        """Whether every target did what was asked."""
        return self.succeeded == self.total

    @property
    def status(self) -> int:
        return (HTTPStatus.OK if self.complete else HTTPStatus.MULTI_STATUS).value

    def whole(self) -> bytes | None:
        """The report as JSON; None if it is better sent in pieces."""
        rows = []
        for answer in self._answers:
            envelope = answer.envelope
            if not isinstance(envelope, bytes) or len(envelope) > LARGE_BYTES:
                return None
            rows.append(_row(answer, envelope))
        return b"%b%b%b" % (_BEGINNING, b",".join(rows), self._end())

    async def pieces(self) -> AsyncIterator[bytes]:
        """The report as JSON, piece by piece."""
        comma = _BEGINNING
        for answer in self._answers:
            yield comma
            yield _row(answer, await answer.text())
            comma = b","
        yield self._end() if self._answers else _BEGINNING + self._end()

    def _end(self) -> bytes:
        failed = [] if self.complete else [_failed_row(outcome) for outcome in self._outcomes if not _is_good(outcome)]
        return b"}," + msgspec.json.encode({"failed": failed, "total": self.total, "succeeded": self.succeeded})[1:]


_BEGINNING: Final = b'{"results":{'


def _worker_id(outcome: Outcome) -> str:
    return outcome.worker.id


def _is_good(outcome: Outcome) -> bool:
    return isinstance(outcome, Answered) and outcome.good


def _row(answer: Answered, envelope: bytes) -> bytes:
    return b"%b:%b" % (msgspec.json.encode(answer.worker.id), envelope)


def _failed_row(outcome: Outcome) -> dict[str, Any]:
    worker = outcome.worker
    row = {"worker_id": worker.id, "url": worker.url}
    if isinstance(outcome, Failed):
        refusal = outcome.refusal
        return row | {"error": refusal.code, "message": refusal.message} | refusal.context
    return row | {"error": "upstream_error", "message": f"HTTP {outcome.status}", "status": outcome.status}
