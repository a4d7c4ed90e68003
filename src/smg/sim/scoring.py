"""Answers without generation: embeddings, classes, and rerank scores.

Vectors and classes follow from the model and the input alone. A rerank score is the share of the query's words that a
document holds, so results look right to a person; a hash breaks ties.
"""

from __future__ import annotations

import base64
import hashlib
import math
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from smg.sim.dialect import Dialect, RerankResult
from smg.sim.prompt import Prompt
from smg.sim.requests import Scoring

CLASSES = ("negative", "neutral", "positive")
# How much of a rerank score a hash may add: less than one word of any sensible query.
_TIE_BREAK = 0.01


class Frame(NamedTuple):
    """What an answer says about itself; `elapsed_secs` is how long it took."""

    id: str
    model: str
    created: int
    elapsed_secs: float


Render = Callable[[Dialect, Scoring, Frame], bytes]


def embeddings(_: Dialect, call: Scoring, frame: Frame) -> bytes:
    """`/v1/embeddings`: unit vectors."""
    data: list[dict[str, Any]] = [
        {
            "object": "embedding",
            "index": index,
            "embedding": _pack(embed(frame.model, p, call.dimensions), as_base64=call.base64),
        }
        for index, p in enumerate(call.prompts)
    ]
    return _listing(frame, call, data)


def classify(_: Dialect, call: Scoring, frame: Frame) -> bytes:
    """`/v1/classify`: a class and its probabilities."""
    data: list[dict[str, Any]] = []
    for index, prompt in enumerate(call.prompts):
        weights = [abs(x) + 1e-3 for x in embed(frame.model, prompt, len(CLASSES))]
        probs = [weight / sum(weights) for weight in weights]
        label = CLASSES[probs.index(max(probs))]
        data.append({"index": index, "label": label, "probs": probs, "num_classes": len(CLASSES)})
    return _listing(frame, call, data)


def rerank(dialect: Dialect, call: Scoring, frame: Frame) -> bytes:
    """`/v1/rerank`: documents by falling score."""
    query, documents = call.texts[0], list(call.texts[1:])
    ranked = sorted(enumerate([score(query, text) for text in documents]), key=lambda pair: -pair[1])
    return dialect.rerank(
        RerankResult(
            frame.id,
            frame.model,
            ranked[: call.top],
            documents if call.with_documents else None,
            sum([p.tokens for p in call.prompts]),
            frame.elapsed_secs,
        )
    )


RENDERERS: dict[str, Render] = {"embeddings": embeddings, "classify": classify, "rerank": rerank}


def embed(model: str, prompt: Prompt, dimensions: int) -> list[float]:
    """The unit vector of a prompt."""
    stream = hashlib.shake_128(model.encode() + b"\n" + prompt.digest).digest(2 * dimensions)
    values = struct.unpack(f"<{dimensions}h", stream)
    norm = math.sqrt(sum([v * v for v in values])) or 1.0
    return [v / norm for v in values]


def score(query: str, document: str) -> float:
    """How well a document fits a query, between 0 and 1."""
    wanted = set(query.lower().split())
    found = wanted & set(document.lower().split())
    overlap = len(found) / len(wanted) if wanted else 0.0
    tie = hashlib.blake2b(f"{query}\n{document}".encode("utf-8", "replace"), digest_size=2).digest()
    return overlap * (1 - _TIE_BREAK) + int.from_bytes(tie, "big") / 65536 * _TIE_BREAK


def _pack(vector: list[float], *, as_base64: bool) -> list[float] | str:
    if not as_base64:
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _listing(frame: Frame, call: Scoring, data: list[dict[str, Any]]) -> bytes:
    tokens = sum([p.tokens for p in call.prompts])
    return msgspec.json.encode(
        {
            "id": frame.id,
            "object": "list",
            "created": frame.created,
            "model": frame.model,
            "data": data,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0},
        }
    )
