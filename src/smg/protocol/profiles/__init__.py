"""Provider profiles: the contracts of model families that differ from OpenAI's, one vendor a file.

A profile is found by the model's name as the client sent it: its segments (between slashes, in any case) are shown to
the vendors in the order below, and the first that knows one of them has the say. Everything else has the baseline.
A profile brings a chat into the form that its family takes, and says what the family refuses. Vendor files do not
import each other; what they share is in `profile.py`.
"""

from __future__ import annotations

from functools import lru_cache

from smg.protocol.profiles import deepseek_v4, kimi, minimax, zai
from smg.protocol.profiles.baseline import BASELINE
from smg.protocol.profiles.profile import Profile

_VENDORS = (kimi.of, minimax.of, zai.of, deepseek_v4.of)
_MOST_REMEMBERED = 1024


@lru_cache(_MOST_REMEMBERED)
def profile_of(model: str) -> Profile:
    """The profile of a model's name."""
    segments = tuple(model.lower().split("/"))
    return next((profile for of in _VENDORS if (profile := of(segments)) is not None), BASELINE)
