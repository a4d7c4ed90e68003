"""Any OpenAI-compatible engine: its model list, and the info routes where it has them."""

from __future__ import annotations

from smg.engines.engine import Engine
from smg.engines.info import MODEL_INFO_FIELDS, SERVER_INFO_FIELDS, card_labels
from smg.engines.labels import Labels, pick
from smg.engines.plan import Plan

_SERVER = "/server_info"
_MODEL = "/model_info"
_MODELS = "/v1/models"


def read_labels() -> Plan[Labels]:
    """Info routes are common enough to be asked; the model list fills what they leave out."""
    answers = yield (_MODELS, _SERVER, _MODEL)
    return {
        **card_labels(answers[_MODELS]),
        **pick(answers[_MODEL].members, MODEL_INFO_FIELDS),
        **pick(answers[_SERVER].members, SERVER_INFO_FIELDS),
    }


GENERIC = Engine("generic", read_labels)
