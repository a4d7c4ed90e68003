"""What the information routes that engines have in common say, as labels."""

from __future__ import annotations

from smg.engines.detection import first_card
from smg.engines.labels import Labels, pick, same
from smg.engines.plan import Answer

SERVER_INFO_FIELDS = (
    ("model_id", "model_id"),
    ("model", "model_id"),
    *same(
        "model_path",
        "served_model_name",
        "tp_size",
        "dp_size",
        "pp_size",
        "load_balance_method",
        "disaggregation_mode",
        "version",
        "is_embedding",
        "context_length",
        "max_total_tokens",
        "max_running_requests",
        "weight_version",
    ),
)

MODEL_INFO_FIELDS = same(
    "model_path",
    "tokenizer_path",
    "is_generation",
    "has_image_understanding",
    "has_audio_understanding",
    "model_type",
    "architectures",
)

_CARD_FIELDS = (("root", "model_path"), ("id", "served_model_name"), ("max_model_len", "max_model_len"))


def card_labels(models: Answer) -> Labels:
    """The labels of a model list's first entry."""
    return pick(first_card(models), _CARD_FIELDS)
