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
from operator import attrgetter
from typing import Any, Final, NamedTuple

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
_MOST_REMEMBERED: Final = 4096
_GOOD: Final = range(200, 300)
_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_DIGITS_ALIKE: Final = bytes.maketrans(b"123456789E", b"000000000e")
_MANY_DIGITS: Final = b"0" * 200
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class Answered(NamedTuple):
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
    envelope = b'%b%d,"latency_ms":%d,"body":%b%b}' % (
        _up_to_status(worker.id, worker.url),
        captured.status,
        int(took_secs * 1000),
        shown_body(captured.body, captured.content_type, cut=captured.truncated),
        b',"body_truncated":true' if captured.truncated else b"",
    )
    return Answered(worker, captured.status, took_secs, envelope)


@lru_cache(_MOST_REMEMBERED)
def _up_to_status(worker_id: str, url: str) -> bytes:
    """The beginning of an envelope, which is the same for all of a worker's answers."""
    return b'{"worker_id":%b,"url":%b,"status":' % (msgspec.json.encode(worker_id), msgspec.json.encode(url))


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
    """What came of a fan-out, one outcome a target; as JSON it has its parts in the order of worker ids.

    Parts are made while the answers come, so that little is left to do behind the last one.
    """

    def __init__(self, outcomes: Iterable[Outcome] = ()) -> None:
        self.outcomes: list[Outcome] = []  # in the order in which they came
        self.succeeded = 0
        self._parts: dict[str, bytes] = {}  # by worker id, of answers that are not large
        self._large = False  # whether there are others
        for outcome in outcomes:
            self.add(outcome)

    def add(self, outcome: Outcome) -> None:
        """One more target has been called."""
        self.outcomes.append(outcome)
        if isinstance(outcome, Failed):
            return
        self.succeeded += outcome.status in _GOOD
        worker_id, envelope = outcome.worker.id, outcome.envelope
        if len(envelope) <= LARGE_BYTES and isinstance(envelope, bytes):
            self._parts[worker_id] = _name(worker_id) + envelope
        else:
            self._large = True

    @property
    def total(self) -> int:
        """How many targets were called."""
        return len(self.outcomes)

    @property
    def complete(self) -> bool:
        """Whether every target did what was asked."""
        return self.succeeded == self.total

    @property
    def status(self) -> int:
        return _COMPLETE if self.complete else _IN_PART

    def whole(self) -> bytes | None:
        """The report as JSON; None if it is better sent in pieces."""
        if self._large:
            return None
        parts = self._parts
        return b"%b%b%b" % (_BEGINNING, b",".join([parts[worker_id] for worker_id in sorted(parts)]), self._end())

    async def pieces(self) -> AsyncIterator[bytes]:
        """The report as JSON, piece by piece."""
        comma = _BEGINNING
        for outcome in self._in_order():
            if isinstance(outcome, Answered):
                yield comma + _name(outcome.worker.id)
                yield await outcome.text()
                comma = b","
        yield self._end() if comma != _BEGINNING else _BEGINNING + self._end()

    def _in_order(self) -> list[Outcome]:
        return sorted(self.outcomes, key=_BY_WORKER)

    def _end(self) -> bytes:
        return b'},"failed":%b,"total":%d,"succeeded":%d}' % (self._failed(), self.total, self.succeeded)

    def _failed(self) -> bytes:
        if self.complete:
            return b"[]"
        return msgspec.json.encode([_failed_row(outcome) for outcome in self._in_order() if not _is_good(outcome)])


_BEGINNING: Final = b'{"results":{'
_BY_WORKER: Final = attrgetter("worker.id")
_COMPLETE: Final = HTTPStatus.OK.value
_IN_PART: Final = HTTPStatus.MULTI_STATUS.value


def _is_good(outcome: Outcome) -> bool:
    return isinstance(outcome, Answered) and outcome.good


@lru_cache(_MOST_REMEMBERED)
def _name(worker_id: str) -> bytes:
    """What stands before an envelope in a report."""
    return msgspec.json.encode(worker_id) + b":"


def _failed_row(outcome: Outcome) -> dict[str, Any]:
    worker = outcome.worker
    row = {"worker_id": worker.id, "url": worker.url}
    if isinstance(outcome, Failed):
        refusal = outcome.refusal
        return row | {"error": refusal.code, "message": refusal.message} | refusal.context
    return row | {"error": "upstream_error", "message": f"HTTP {outcome.status}", "status": outcome.status}
