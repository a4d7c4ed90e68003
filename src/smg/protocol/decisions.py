"""The shape of POST /v1/decisions: evidence, and questions about it that are answered with probabilities.

Types and closed sets are here; how long a text may be and what an image looks like is `decisions_limits.py`. Members
that nobody here knows are extensions of some backend: they stay in the body, and who cannot honour them says so.
Optional texts may be absent but not null, as OpenAI's reference has it, except where null is one of its values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from smg.protocol.model_member import ModelName
from smg.protocol.requests import Request


class InputText(Struct, tag_field="type", tag="input_text", gc=False):
    text: str


class InputImage(Struct, tag_field="type", tag="input_image", gc=False):
    image_url: str
    detail: Literal["low", "high", "auto", "original"] | None = None


Part = InputText | InputImage


class InputMessage(Struct, gc=False):
    """One piece of evidence; only users give evidence."""

    role: Literal["user"]
    content: str | list[Part]
    type: Literal["message"] | UnsetType = UNSET


Evidence = str | list[InputMessage]


class _Question(Struct, tag_field="type", gc=False, kw_only=True):
    """What every question has. Names need not be unique."""

    instructions: str
    name: str | UnsetType = UNSET


class Predicate(_Question, tag="predicate", gc=False, kw_only=True):
    """Is the statement true?"""


class Choice(Struct, gc=False):
    """One of the answers to choose from; true is another one than "true"."""

    value: str | bool
    description: str | UnsetType = UNSET


class ChoiceQuestion(_Question, tag="choice", gc=False, kw_only=True):
    """Which one?"""

    choices: list[Choice]


class Level(Struct, gc=False):
    """One step of a scale."""

    label: str
    description: str | UnsetType = UNSET


class ScoreQuestion(_Question, tag="score", gc=False, kw_only=True):
    """How much, on a scale from its lowest level to its highest?"""

    levels: list[Level]


Question = Predicate | ChoiceQuestion | ScoreQuestion


class DecisionsRequest(Request, gc=False, kw_only=True):
    """POST /v1/decisions. It has no stream: the answer is one JSON body."""

    model: ModelName
    input: Evidence
    questions: list[Question]
    safety_identifier: str | None = None


def parts_of(evidence: Evidence) -> Iterator[tuple[str, Part | str]]:
    """Every piece of evidence, and where it stands. What came as a plain string is a string here."""
    if isinstance(evidence, str):
        yield "input", evidence
        return
    for place, message in enumerate(evidence):
        if isinstance(message.content, str):
            yield f"input[{place}].content", message.content
            continue
        for index, part in enumerate(message.content):
            yield f"input[{place}].content[{index}]", part


def evidence_text(request: DecisionsRequest) -> str:
    """The evidence as one text, without its images."""
    return " ".join([text for _, part in parts_of(request.input) if (text := _text(part)) is not None])


def question_texts(request: DecisionsRequest) -> list[str]:
    """What the questions say to the model: instructions, choices and levels."""
    texts: list[str | UnsetType] = []
    for question in request.questions:
        texts.append(question.instructions)
        if isinstance(question, ChoiceQuestion):
            for choice in question.choices:
                texts += [str(choice.value), choice.description]
        elif isinstance(question, ScoreQuestion):
            for level in question.levels:
                texts += [level.label, level.description]
    return [text for text in texts if isinstance(text, str)]


def _text(part: Part | str) -> str | None:
    if isinstance(part, str):
        return part
    return part.text if isinstance(part, InputText) else None
