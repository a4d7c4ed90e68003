"""What a routing policy may look at when it places a request.

The parse step fills in only what the policy asks for (`Policy.reads_text`), so that a policy which looks at nothing
costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Hints:
    """The routing signal of one request.

    `text` is the prompt's text (of a chat, the texts of its messages in order); `tokens` the prompt's leading token
    ids, which win over the text; `routing_key` a valid key the caller sent; `target` the raw X-SMG-Target-Worker value;
    `identity` what implicitly identifies a caller (X-Forwarded-For, else Cookie); `partition` separates prompts that
    must not share a cache ("" = none). `session` names the sticky session the request belongs to, if there are any.
    """

    text: str = ""
    tokens: Sequence[int] | None = None
    routing_key: str | None = None
    target: str | None = None
    identity: str | None = None
    partition: str = ""
    session: str | None = None


NO_HINTS = Hints()
