"""The shape of SGLang's `/generate`: text so far, token ids, and a `meta_info` that says everything else.

A streamed event carries the whole text up to there; tokens that appear together share one event.
"""

from __future__ import annotations

from collections.abc import Sequence as ListOf
from typing import Any

import msgspec

from smg.sim.forms import DONE
from smg.sim.output import logprob, token_id
from smg.sim.requests import Call
from smg.sim.scheduler import Sequence
from smg.sim.sglang import EOS_ID


class GenerateForm:
    """One `/generate` answer; see `forms.Form`."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def whole(self, sequences: ListOf[Sequence], version: str, now: float) -> bytes:
        rows = [self._row(sequence, version, now) for sequence in sequences]
        return msgspec.json.encode(rows if self._call.many else rows[0])

    def opening(self, position: int) -> bytes:  # noqa: ARG002  tokens come first
        return b""

    def events(self, sequence: Sequence, position: int, version: str) -> bytes:
        if sequence.ended or sequence.produced == sequence.sent:
            return b""  # the last tokens come with the closing event
        sequence.sent = sequence.produced
        return self._event(sequence, position, version, None)

    def closing(self, sequence: Sequence, position: int, version: str, now: float) -> bytes:
        return self._event(sequence, position, version, now)

    def ending(self, sequences: ListOf[Sequence]) -> bytes:  # noqa: ARG002  usage is in every event
        return DONE

    def _event(self, sequence: Sequence, position: int, version: str, now: float | None) -> bytes:
        row = self._row(sequence, version, now)
        if self._call.many:
            row["index"] = position
        return b"data: %b\n\n" % msgspec.json.encode(row)

    def _row(self, sequence: Sequence, version: str, now: float | None) -> dict[str, Any]:
        pieces = sequence.output.pieces(0, sequence.produced)
        ids = [token_id(piece) for piece in pieces]
        info: dict[str, Any] = {
            "id": sequence.rid,
            "finish_reason": _finish_reason(sequence),
            "prompt_tokens": sequence.prompt.tokens,
            "weight_version": version,
            "total_retractions": sequence.retractions,
            "completion_tokens": sequence.produced,
            "cached_tokens": sequence.cached_tokens,
        }
        if now is not None:
            info["e2e_latency"] = now - sequence.submitted_at
        if self._call.logprobs is not None:
            info["output_token_logprobs"] = [[logprob(p), i, None] for p, i in zip(pieces, ids, strict=True)]
            if self._call.logprobs:
                ranks = range(self._call.logprobs)
                info["output_top_logprobs"] = [
                    [[logprob(p, rank), i + rank, None] for rank in ranks] for p, i in zip(pieces, ids, strict=True)
                ]
        return {"text": sequence.text, "output_ids": ids, "meta_info": info}


def _finish_reason(sequence: Sequence) -> dict[str, Any] | None:
    if sequence.ended is None:
        return None
    if sequence.ended == "abort":
        return {"type": "abort", "message": "The request was aborted."}
    if sequence.ended == "length":
        return {"type": "length", "length": sequence.produced}
    matched = sequence.output.matched
    return {"type": "stop", "matched": EOS_ID if matched is None else matched}
