"""The requests of conversations: a long beginning that several users share, and turns that make it longer.

Everything is made before the measuring begins, but for the number of the session: when a conversation has had
all its turns, the same user begins another one, which no gateway has seen.
"""

import itertools
import json
from collections.abc import Iterator

from bench import wire

TURNS = 8
# So many users of one application, which gives all of them the same beginning.
SHARING = 8
_SESSION = b"@session"  # as wide as the number that replaces it
_QUESTION = "And what does that mean for case %d? Answer in a few sentences, and name what you are not sure of."
_ANSWER = (
    'For case %d the text says "it depends": on the order of the steps, on who signs first, and on whether the '
    "form was complete. What is certain is the deadline; what is not is who has to be told about it. "
)


def requests(port: int, user: int, prefix_bytes: int) -> Iterator[bytes]:
    """The requests of one user without end, turn by turn and session by session."""
    turns = [_turn(port, user, prefix_bytes, turn) for turn in range(TURNS)]
    for session in itertools.count():
        name = b"%08d" % session
        for before, after in turns:
            yield before + name + after


def taking_turns(port: int, users: range, prefix_bytes: int) -> Iterator[bytes]:
    """The requests of several users over one connection, a turn of each at a time."""
    return itertools.chain.from_iterable(zip(*(requests(port, user, prefix_bytes) for user in users), strict=True))


def _turn(port: int, user: int, prefix_bytes: int, turn: int) -> tuple[bytes, bytes]:
    """A request, parted where the number of the session stands."""
    system = wire.document(prefix_bytes, seed=user // SHARING)
    messages = [{"role": "system", "content": system}]
    messages.append({"role": "user", "content": f"User {user}, session {_SESSION.decode()}. {_QUESTION % 0}"})
    for past in range(turn):
        messages.append({"role": "assistant", "content": _ANSWER % past * 2})
        messages.append({"role": "user", "content": _QUESTION % (past + 1)})
    before, _, after = wire.chat_request(port, wire.chat_body(messages=messages)).partition(_SESSION)
    return before, after


# --- a conversation of an agent, for a model of each profile

PROFILES = {
    "baseline": "gpt-5",
    "kimi": "kimi-k2",
    "kimi_k3": "kimi-k3",
    "minimax": "minimax-m2",
    "zai": "glm-4.7",
    "glm_53": "glm-5.3",
    "deepseek_v4": "deepseek-v4-pro",
    "deepseek_v41": "deepseek-v4.1-flash",
}
_TURN = "One of the turns of a conversation that has been going on for a while. "


def agent_chat(model: str, size: int) -> bytes:
    """A request of about that size: many turns, and tools."""
    turn = _TURN * 14
    messages = [{"role": ("user", "assistant")[n % 2], "content": turn} for n in range(size // len(turn))]
    tools = [{"type": "function", "function": {"name": f"tool_{n}", "description": _TURN}} for n in range(4)]
    body = {"model": model, "messages": [*messages, {"role": "user", "content": "And?"}], "tools": tools}
    return json.dumps({**body, "stream": False, "max_tokens": 100}).encode()
