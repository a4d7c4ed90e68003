"""The form of an audio transcription: which fields there are, what is checked of them, and what goes to a worker.

Only what the API documents is kept. Values are forwarded in the words they came in, but for the model, whose alias is
resolved.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from smg.protocol.failures import FormFailure
from smg.protocol.multipart import FilePart, Form

FILE: Final = "file"
GRANULARITIES: Final = "timestamp_granularities[]"
SINGLE_FIELDS: Final = ("model", "language", "prompt", "response_format", "temperature", "stream")
FIELDS: Final = (*SINGLE_FIELDS, GRANULARITIES)
# Servers take a part without a file name for text.
NAMELESS: Final = "audio"

_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_STREAM: Final = {"true": True, "1": True, "false": False, "0": False}


class Transcription(NamedTuple):
    """A transcription that is asked for. `fields` are the text fields to forward, in the order of the API's table."""

    model: str
    stream: bool
    fields: tuple[tuple[str, str], ...]
    file: FilePart

    @property
    def prompt(self) -> str:
        """The text that guides the transcript."""
        return next((value for name, value in self.fields if name == "prompt"), "")

    def fields_for(self, model: str) -> list[tuple[str, str]]:
        """The fields with the model by the name that its workers know."""
        return [(name, model if name == "model" else value) for name, value in self.fields]


def transcription_of(form: Form) -> Transcription:
    """What a form asks for. Raises FormFailure."""
    file = form.file
    if file is None or not file.size:
        raise FormFailure("The form has no file" if file is None else "The file is empty")
    values: dict[str, str] = {}
    for name in SINGLE_FIELDS:
        given = form.fields.get(name, [])
        if len(given) > 1:
            raise FormFailure(f"The form has more than one '{name}'")
        if given:
            values[name] = given[0]
    if not values.get("model", "").strip():
        raise FormFailure("The form has no model")
    if "temperature" in values:
        _check_temperature(values["temperature"])
    stream = _STREAM.get(values.get("stream", "false"))
    if stream is None:
        raise FormFailure("stream must be true, false, 1 or 0")
    fields = [*values.items(), *[(GRANULARITIES, value) for value in form.fields.get(GRANULARITIES, [])]]
    return Transcription(values["model"], stream, tuple(fields), _named(file))


def _check_temperature(text: str) -> None:
    if not _NUMBER.fullmatch(text) or not 0 <= float(text) <= 1:
        raise FormFailure("temperature must be a number from 0.0 to 1.0")


def _named(file: FilePart) -> FilePart:
    return file if file.filename else FilePart(NAMELESS, file.content_type, file.size)
