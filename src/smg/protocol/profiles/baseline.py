"""The baseline: OpenAI's contract, which the general rules (`rules.py`) hold."""

from __future__ import annotations

from smg.protocol.profiles.profile import Draft, Profile


def _as_it_is(_: Draft) -> None:
    """Nothing is filled in or rewritten."""


def _nothing(_: Draft) -> list[str]:
    return []


BASELINE = Profile("baseline", _as_it_is, _nothing)
