"""Engine metadata as worker labels, and the model that labels describe.

Labels are text. A value that says nothing is no label: empty text, the word null, a numeric zero, an empty
list.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Labels = dict[str, str]

GENERATION_TYPES = ("chat", "completions", "responses", "tools")
"""What a model that generates text can be asked for."""

_RERANK_MARKS = ("rerank", "cross-encoder", "crossencoder")
_IMAGE_LABELS = ("has_image_understanding", "supports_vision")
_CONTEXT_LABELS = ("context_length", "max_context_length", "max_model_len", "max_total_tokens", "max_seq_len")
_NAME_LABELS = ("served_model_name", "model_id", "model_path")
_MAX_DIGITS = 18  # labels can be anybody's; a size fits 64 bits


def label_text(value: Any) -> str | None:
    """A JSON value as a label, or None if it says nothing or is an object."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value if value and value != "null" else None
    if isinstance(value, float):
        return _number_text(value)
    if isinstance(value, int):
        return str(value) if value else None
    if isinstance(value, list) and value:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return None


def _number_text(value: float) -> str | None:
    if not value:
        return None
    return str(int(value)) if value.is_integer() else str(value)


def pick(members: Mapping[str, Any], fields: Iterable[tuple[str, str]]) -> Labels:
    """The labels of the named fields: pairs of (member, label); of several members for one label the first
    wins.
    """
    labels: Labels = {}
    for member, label in fields:
        text = label_text(members.get(member))
        if text is not None:
            labels.setdefault(label, text)
    return labels


def same(*names: str) -> tuple[tuple[str, str], ...]:
    """Fields whose label bears the member's name."""
    return tuple((name, name) for name in names)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What labels say about the model a worker serves; `context_length` is in tokens, `id` None if it has
    no name.
    """

    id: str | None
    context_length: int | None
    model_type: tuple[str, ...]
    tokenizer_path: str | None
    hf_model_type: str | None
    architectures: tuple[str, ...]


def describe_model(labels: Mapping[str, str]) -> ModelFacts:
    """Read the labels of a worker."""
    architectures = _list(labels.get("architectures"))
    return ModelFacts(
        id=next((labels[label] for label in _NAME_LABELS if labels.get(label)), None),
        context_length=_first_size(labels),
        model_type=_model_type(labels, architectures),
        tokenizer_path=labels.get("tokenizer_path"),
        hf_model_type=labels.get("model_type"),
        architectures=architectures,
    )


def _model_type(labels: Mapping[str, str], architectures: tuple[str, ...]) -> tuple[str, ...]:
    if labels.get("is_embedding") == "true" or labels.get("is_generation") == "false":
        text = " ".join([*architectures, labels.get("model_type", "")]).lower()
        return ("rerank",) if any(mark in text for mark in _RERANK_MARKS) else ("embeddings",)
    sees = any(labels.get(label) == "true" for label in _IMAGE_LABELS)
    return (*GENERATION_TYPES, "vision") if sees else GENERATION_TYPES


def _first_size(labels: Mapping[str, str]) -> int | None:
    for label in _CONTEXT_LABELS:
        text = labels.get(label, "")
        if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS:
            return int(text)
    return None


def _list(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    try:
        items = json.loads(text)
    except (ValueError, RecursionError):
        return (text,)
    return tuple(str(item) for item in items) if isinstance(items, list) else (text,)
