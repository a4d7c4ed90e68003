"""The two accounts of a soak: the clients' of their requests, the engines' of what they executed.

All times are of the machine's monotonic clock, which every process reads alike; 0.0 stands for what did not happen.
"""

from dataclasses import astuple, dataclass

# What became of a request. An answer is `spoiled` if it broke off or was garbled on its way from the engine, `wrong`
# if it is not this request's.
WHOLE, REFUSED, SPOILED, WRONG, LEFT, UNANSWERED = "whole", "refused", "spoiled", "wrong", "left", "unanswered"

# What became of an execution: `cut` ones were aborted, or went down with their engine; of `hurt` ones a fault
# took hold on their way to the gateway.
RUNS, DELIVERED, CUT, HURT = "runs", "delivered", "cut", "hurt"


@dataclass(slots=True)
class Account:
    """One request of a client. `sent` says whether all of it was, `leaves` at which point it was to be given up.

    `single` requests pass through the gateway unread, which can therefore try them only once.
    """

    rid: str
    single: bool
    leaves: str
    sent: bool = False
    outcome: str = ""
    status: int = 0
    first_byte_at: float = 0.0
    left_at: float = 0.0


@dataclass(slots=True)
class Execution:
    """One attempt of one request at one engine, from its admission there to its last token."""

    rid: str
    began_at: float
    ended_at: float = 0.0
    fate: str = RUNS


def rows(entries: list[Account] | list[Execution]) -> list[tuple[object, ...]]:
    """Entries as JSON takes them; a row makes the entry again."""
    return [astuple(entry) for entry in entries]
