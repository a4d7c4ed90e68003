"""`/v1/audio/transcriptions`: a form with audio in, a transcript out, in OpenAI's formats.

The transcript follows from the bytes of the audio and the prompt as any other text does, so the same recording has the
same words on every replica. Four characters take a quarter of a second to say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence as ListOf
from typing import Final, NamedTuple

import msgspec

from smg.protocol.failures import FormFailure
from smg.protocol.multipart import FormReader, boundary_of
from smg.protocol.transcriptions import FIELDS, FILE, GRANULARITIES, transcription_of
from smg.sim.dialect import JSON, TEXT, SimError
from smg.sim.forms import DONE
from smg.sim.scheduler import Sequence

TOKEN_SECS: Final = 0.25
_TYPES: Final = {
    "json": JSON,
    "text": TEXT,
    "verbose_json": JSON,
    "srt": b"application/x-subrip; charset=utf-8",
    "vtt": b"text/vtt; charset=utf-8",
}


class Asked(NamedTuple):
    """What a form asks for; `completion` is the body of the completion that is its transcript."""

    completion: bytes
    response_format: str
    words: bool

    @property
    def content_type(self) -> bytes:
        """The type of the answer."""
        return _TYPES[self.response_format]


def read_form(content_type: bytes | None, body: bytes) -> Asked:
    """Read a form. Raises SimError 400."""
    try:
        reader = FormReader(boundary_of(content_type), FIELDS, FILE)
        digest = hashlib.sha256()
        for data in reader.feed(body):
            digest.update(data)
        asked = transcription_of(reader.finish())
    except FormFailure as error:
        raise SimError(400, error.message) from None
    values = dict(asked.fields)
    wanted = values.get("response_format", "json")
    if wanted not in _TYPES:
        raise SimError(400, f"there is no response format '{wanted}'", "response_format")
    completion = {"model": asked.model, "stream": asked.stream, "prompt": f"{digest.hexdigest()} {asked.prompt}"}
    return Asked(msgspec.json.encode(completion), wanted, (GRANULARITIES, "word") in asked.fields)


class TranscriptForm:
    """One transcript; see `forms.Form`."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    def whole(self, sequences: ListOf[Sequence], version: str, now: float) -> bytes:  # noqa: ARG002  not in it
        (sequence,) = sequences
        text, end = sequence.text, sequence.produced * TOKEN_SECS
        match self._asked.response_format:
            case "text":
                return text.encode() + b"\n"
            case "srt":
                return f"1\n{_clock(0, ',')} --> {_clock(end, ',')}\n{text}\n\n".encode()
            case "vtt":
                return f"WEBVTT\n\n{_clock(0, '.')} --> {_clock(end, '.')}\n{text}\n\n".encode()
            case "verbose_json":
                return msgspec.json.encode(self._verbose(sequence, end))
            case _:
                return msgspec.json.encode({"text": text, "usage": _usage(sequence)})

    def opening(self, position: int) -> bytes:  # noqa: ARG002  the words come first
        return b""

    def events(self, sequence: Sequence, position: int, version: str) -> bytes:  # noqa: ARG002  not in it
        start = sequence.sent
        sequence.sent = sequence.produced
        pieces = sequence.output.pieces(start, sequence.produced)
        return b"".join([_event({"type": "transcript.text.delta", "delta": piece}) for piece in pieces])

    def closing(self, sequence: Sequence, position: int, version: str, now: float) -> bytes:  # noqa: ARG002  not in it
        return _event({"type": "transcript.text.done", "text": sequence.text, "usage": _usage(sequence)})

    def ending(self, sequences: ListOf[Sequence]) -> bytes:  # noqa: ARG002  usage is in the last event
        return DONE

    def _verbose(self, sequence: Sequence, end: float) -> dict[str, object]:
        pieces = sequence.output.pieces(0, sequence.produced)
        segment = {
            "id": 0,
            "seek": 0,
            "start": 0.0,
            "end": end,
            "text": sequence.text,
            "tokens": [],
            "temperature": 0.0,
        }
        odds = {"avg_logprob": -0.1, "compression_ratio": 1.0, "no_speech_prob": 0.0}
        row: dict[str, object] = {"task": "transcribe", "language": "english", "duration": end, "text": sequence.text}
        row["segments"] = [segment | odds]
        if self._asked.words:
            starts = [at * TOKEN_SECS for at in range(len(pieces))]
            row["words"] = [
                {"word": piece.strip(), "start": start, "end": start + TOKEN_SECS}
                for piece, start in zip(pieces, starts, strict=True)
            ]
        return row


def _event(value: dict[str, object]) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(value)


def _usage(sequence: Sequence) -> dict[str, object]:
    read, written = sequence.prompt.tokens, sequence.produced
    return {"type": "tokens", "input_tokens": read, "output_tokens": written, "total_tokens": read + written}


def _clock(secs: float, point: str) -> str:
    """A time as subtitles write it."""
    whole, thousandths = divmod(round(secs * 1000), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{point}{thousandths:03}"
