"""Which models a worker serves: the cards of its spec, completed by what its labels say; else what they
name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from smg.engines.labels import ModelFacts, describe_model
from smg.fleet.spec import WorkerSpec
from smg.fleet.worker import ModelCard


def model_cards(spec: WorkerSpec, labels: Mapping[str, str]) -> tuple[ModelCard, ...]:
    """The worker's cards; none for a worker that serves any model.

    `labels` are the discovered ones with the spec's own laid over them. What an engine says is about its
    one base model, so it completes the first card only.
    """
    facts = describe_model(labels)
    if spec.models:
        first, *others = spec.models
        return (_completed(first, facts, labels), *others)
    if facts.id is None:
        return ()
    return (_completed(ModelCard(facts.id, model_type=facts.model_type), facts, labels),)


def _completed(card: ModelCard, facts: ModelFacts, labels: Mapping[str, str]) -> ModelCard:
    return replace(
        card,
        context_length=card.context_length or facts.context_length,
        tokenizer_path=card.tokenizer_path or facts.tokenizer_path,
        tool_parser=card.tool_parser or labels.get("tool_parser"),
        reasoning_parser=card.reasoning_parser or labels.get("reasoning_parser"),
        hf_model_type=card.hf_model_type or facts.hf_model_type,
        architectures=card.architectures or facts.architectures,
    )
