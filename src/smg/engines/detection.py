"""Which engine answers at an HTTP address.

The model list's owner is the surest sign. Where it says nothing, routes that only one engine has decide,
vLLM's first; and an address that has just a model list is some OpenAI-compatible engine.
"""

from __future__ import annotations

from typing import Any

from smg.engines.plan import NO_ANSWER, Answer, Plan

MODELS = "/v1/models"
VERSION = "/version"
SERVER_INFO = "/server_info"

_OWNERS = {"sglang": "sglang", "nvidia": "sglang", "vllm": "vllm"}


def detect_runtime() -> Plan[str | None]:
    """Find out the runtime; None if nothing tells."""
    models = (yield (MODELS,)).get(MODELS, NO_ANSWER)
    owner = _OWNERS.get(_owned_by(models))
    if owner is not None:
        return owner
    answers = yield (VERSION, SERVER_INFO)
    if answers.get(VERSION, NO_ANSWER).ok:
        return "vllm"
    if answers.get(SERVER_INFO, NO_ANSWER).ok:
        return "sglang"
    return "generic" if isinstance(models.members.get("data"), list) else None


def first_card(models: Answer) -> dict[str, Any]:
    """The first entry of a model list; empty if there is none."""
    cards = models.members.get("data")
    if isinstance(cards, list) and cards and isinstance(cards[0], dict):
        return cards[0]
    return {}


def _owned_by(models: Answer) -> str:
    owner = first_card(models).get("owned_by")
    return owner if isinstance(owner, str) else ""
