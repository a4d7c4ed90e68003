"""Decisions: questions about evidence, answered with probabilities. SGLang calls it System One, others `/v1/decisions`.

Every question is a prompt of its own over the shared evidence. Its probabilities follow from the model and the prompt,
so the same request gets the same answer on both routes of one model.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from smg.sim.dialect import Dialect
from smg.sim.requests import Question, Scoring
from smg.sim.scoring import Frame, Render, embed

_TRUE_AND_FALSE = 2


class _Scores(NamedTuple):
    """`confidence` is how far the probabilities are from being all alike."""

    probabilities: list[float]
    top: int
    confidence: float

    @property
    def mean(self) -> float:
        return sum([index * probability for index, probability in enumerate(self.probabilities)])


def systemone(_: Dialect, call: Scoring, frame: Frame) -> bytes:
    """`/v1/systemone`: answers by the keys of their questions."""
    answers = {
        question.name: _keyed(question, scores)
        for question, scores in zip(call.questions, _all(call, frame), strict=True)
    }
    usage = {"input_tokens": sum([p.tokens for p in call.prompts]), "output_tokens": 0}
    return msgspec.json.encode({"model": frame.model, "answers": answers, "usage": usage})


def decisions(_: Dialect, call: Scoring, frame: Frame) -> bytes:
    """`/v1/decisions`: answers in the order of their questions."""
    answers = [_listed(question, scores) for question, scores in zip(call.questions, _all(call, frame), strict=True)]
    tokens = sum([p.tokens for p in call.prompts])
    usage = {
        "input_tokens": tokens,
        "output_tokens": 0,
        "total_tokens": tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return msgspec.json.encode({"model": frame.model, "answers": answers, "usage": usage})


RENDERERS: dict[str, Render] = {"systemone": systemone, "decisions": decisions}


def _all(call: Scoring, frame: Frame) -> list[_Scores]:
    return [
        _scores([abs(x) + 1e-3 for x in embed(frame.model, prompt, len(question.options) or _TRUE_AND_FALSE)])
        for question, prompt in zip(call.questions, call.prompts, strict=True)
    ]


def _scores(weights: list[float]) -> _Scores:
    total, count = sum(weights), len(weights)
    probabilities = [weight / total for weight in weights]
    most = max(probabilities)
    confidence = (count * most - 1) / (count - 1) if count > 1 else 1.0
    return _Scores(probabilities, probabilities.index(most), min(1.0, max(0.0, confidence)))


def _keyed(question: Question, scores: _Scores) -> dict[str, Any]:
    match question.kind:
        case "noul":
            return {"type": "noul", "noul": scores.probabilities[0]}
        case "choice":
            return {
                "type": "choice",
                "choice": question.options[scores.top],
                "confidence": scores.confidence,
                "probabilities": dict(zip(question.options, scores.probabilities, strict=True)),
            }
        case _:
            return {
                "type": "score",
                "score": scores.mean,
                "confidence": scores.confidence,
                "legend": {str(index): option for index, option in enumerate(question.options)},
                "probabilities": {str(index): p for index, p in enumerate(scores.probabilities)},
            }


def _listed(question: Question, scores: _Scores) -> dict[str, Any]:
    head = {"type": question.kind, "name": question.name}
    match question.kind:
        case "predicate":
            return {**head, "probability": scores.probabilities[0]}
        case "choice":
            rows = [{"value": v, "probability": p} for v, p in zip(question.options, scores.probabilities, strict=True)]
            choice = question.options[scores.top]
            return {**head, "choice": choice, "confidence": scores.confidence, "probabilities": rows}
        case _:
            rows = [
                {"value": index, "label": label, "probability": p}
                for index, (label, p) in enumerate(zip(question.options, scores.probabilities, strict=True))
            ]
            return {**head, "score": scores.mean, "confidence": scores.confidence, "probabilities": rows}
