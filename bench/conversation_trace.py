"""A trace of multi-turn conversations, made from a seed: the same on every machine and for every gateway.

Applications differ in popularity and in the length of their system prompt, which all their users share. Users come
and go; each has a conversation of a few turns, and every turn sends the whole history. Users think between turns, so
their requests mix; of the times only the order is kept. What the assistant said is not part of the trace: the player
puts in what the engine answered.
"""

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass

APPLICATIONS = 16
CONVERSATIONS = 960
# Between two users that come, and between two turns of one: so some fifty conversations are open at a time.
ARRIVAL_SECS = 1.0
THINKING_SECS = 12.0
SEED = 20_260_101

_VOCABULARY = (
    "account address amount answer article balance before between branch budget cause change claim client clause "
    "contract country course credit customer date decision delay delivery detail document effect error example fee "
    "field form function goal group hour invoice issue item letter level limit list market matter measure message "
    "method model month name notice number offer office order owner page part payment period person place plan "
    "point policy price problem process product project question rate reason record report request result return "
    "review right risk rule sample section service share side sign source stage state step store subject summary "
    "system table task team term test time title total type unit update user value version view week word work year"
)
_WORDS = _VOCABULARY.split()


@dataclass(frozen=True, slots=True)
class Turn:
    """One request: whose, and what the user says. `system` is the beginning of its conversation."""

    conversation: int
    system: str
    says: str
    last: bool


def turns(seed: int = SEED, conversations: int = CONVERSATIONS) -> Iterator[Turn]:
    """The turns of all conversations, in the order in which they are sent."""
    chance = random.Random(seed)
    systems = [_text(chance, int(chance.lognormvariate(8.3, 0.6))) for _ in range(APPLICATIONS)]
    popularity = [1 / (rank + 1) for rank in range(APPLICATIONS)]
    due: list[tuple[float, int, int]] = []
    systems_of: list[str] = []
    arrives_at = 0.0
    for conversation in range(conversations):
        arrives_at += chance.expovariate(1 / ARRIVAL_SECS)
        systems_of.append(chance.choices(systems, popularity)[0])
        heapq.heappush(due, (arrives_at, conversation, _turn_count(chance)))
    while due:
        at, conversation, left = heapq.heappop(due)
        says = _text(chance, int(chance.lognormvariate(5.3, 0.9)))
        yield Turn(conversation, systems_of[conversation], says, last=left == 1)
        if left > 1:
            heapq.heappush(due, (at + chance.expovariate(1 / THINKING_SECS), conversation, left - 1))


def _turn_count(chance: random.Random) -> int:
    """Many conversations are short, some are long."""
    return min(12, 1 + int(chance.expovariate(1 / 3.5)))


def _text(chance: random.Random, characters: int) -> str:
    words: list[str] = []
    length = -1
    while length < characters:
        words.append(chance.choice(_WORDS))
        length += len(words[-1]) + 1
    return " ".join(words)
