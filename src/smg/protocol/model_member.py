"""The `model` member of a request, and the proof that it stands there only once.

JSON lets an object repeat a member and leaves open which one counts. A body with two models could therefore
be admitted and routed as one model and served as the other. The decoder keeps the last of them silently, but
it calls its hook for each value of a type that it does not know; so the member gets such a type, and the
hook counts. That costs the same for a body of any size, and finds a name spelled with escapes too.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    ModelName = str
else:

    class _IsName(type):
        """The decoder asks whether the hook returned an instance: whatever `take_model` let pass is one."""

        def __instancecheck__(cls, value: object) -> bool:
            return type(value) is str

    class ModelName(metaclass=_IsName):
        """A plain `str` to everybody but the decoder."""


class _Tally(threading.local):
    """How many models the decode that runs in this thread has met."""

    models = 0


tally = _Tally()


def take_model(_kind: type, value: object) -> str:
    """The decoder's hook: count a model member and pass its name on.

    Raises:
        TypeError: It is no string; the decoder adds where.
    """
    if type(value) is not str:
        raise TypeError("Expected `str`")
    tally.models += 1
    return value
