"""What a Decisions request may hold at most, whoever serves it: OpenAI's limits, in characters and not in bytes.

The rows are in `rules.py`; what they ask is answered here, with the places that break a limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from smg.protocol.decisions import (
    ChoiceQuestion,
    Evidence,
    InputImage,
    InputText,
    Question,
    ScoreQuestion,
    parts_of,
)

MAX_WORDING_CHARS: Final = 1_048_576
"""Of a model's name, and of each name, instruction, description and label."""
MAX_PART_CHARS: Final = 10_485_760
"""Of one `input_text` part."""
MAX_IDENTIFIER_CHARS: Final = 128
MAX_IMAGES: Final = 128
"""In one request."""

# RFC 2397; what follows the comma is the engine's to decode. An address or a file id would make the engine fetch it.
_INLINE_IMAGE = re.compile(r"data:image/[^,;]+(?:;[^,;]+)*;base64,.", re.IGNORECASE | re.DOTALL)


def count_images(evidence: Evidence) -> int:
    """How many images are among the evidence."""
    return sum([isinstance(part, InputImage) for _, part in parts_of(evidence)])


def long_parts(evidence: Evidence) -> list[str]:
    """Where text parts are too long."""
    parts = parts_of(evidence)
    return [place for place, part in parts if isinstance(part, InputText) and len(part.text) > MAX_PART_CHARS]


def remote_images(evidence: Evidence) -> list[str]:
    """Where images are not inline."""
    parts = parts_of(evidence)
    return [place for place, part in parts if isinstance(part, InputImage) and not _INLINE_IMAGE.match(part.image_url)]


def long_wordings(questions: list[Question]) -> list[str]:
    """Where questions say too much at once."""
    return [
        f"questions[{index}].{place}"
        for index, question in enumerate(questions)
        for place, text in _wordings(question)
        if isinstance(text, str) and len(text) > MAX_WORDING_CHARS
    ]


def _wordings(question: Question) -> Iterator[tuple[str, object]]:
    """The texts of a question that have a limit, the absent ones included."""
    yield "instructions", question.instructions
    yield "name", question.name
    if isinstance(question, ChoiceQuestion):
        for index, choice in enumerate(question.choices):
            yield f"choices[{index}].description", choice.description
    elif isinstance(question, ScoreQuestion):
        for index, level in enumerate(question.levels):
            yield f"levels[{index}].label", level.label
            yield f"levels[{index}].description", level.description
