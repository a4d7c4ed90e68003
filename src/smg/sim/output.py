"""What a simulated engine answers: text that follows from model, seed, weight version and prompt, and nothing else.
JSON that a request demands follows from all of these but the weight version, so that a refit leaves it whole.

A token of an answer is four characters, like a prompt's. The text is known as a whole before its first token is due;
the scheduler only decides when how much of it exists.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from typing import Literal

from smg.sim.json_values import json_text
from smg.sim.lexicon import speak
from smg.sim.prompt import CHARS_PER_TOKEN, Prompt, blocks_with_answer, count_tokens

Finish = Literal["stop", "length", "abort"]

VOCABULARY = 100_000
_MEMO_ENTRIES = 1024


@dataclass(frozen=True, slots=True)
class Sampling:
    """How far to generate: `limit_tokens` tokens, which ends in `finish`, or until one of `stops` appears.

    `seed` is the request's own, None without one. With `schema`, a JSON Schema, the answer is a value of it: as many
    tokens as that takes, at most `limit_tokens`.
    """

    limit_tokens: int
    finish: Finish = "stop"
    stops: tuple[str, ...] = ()
    seed: int | None = None
    schema: bytes | None = None


def sampling_for(
    default_tokens: int,
    max_tokens: int | None,
    *,
    min_tokens: int = 0,
    ignore_eos: bool = False,
    stops: tuple[str, ...] = (),
    seed: int | None = None,
) -> Sampling:
    """The sampling of a request: an answer is `default_tokens` long by nature, unless the request says otherwise."""
    natural = max(default_tokens, min_tokens)
    if ignore_eos:
        return Sampling(default_tokens if max_tokens is None else max_tokens, "length", stops, seed)
    if max_tokens is not None and max_tokens < natural:
        return Sampling(max_tokens, "length", stops, seed)
    return Sampling(natural, "stop", stops, seed)


class Output:
    """One answer. `text` is what is visible: a stop string and what its token holds after it are cut off.

    `tokens` counts what is generated, the cut-off part included; `matched` is the stop string that ended it.
    """

    __slots__ = ("_blocks", "finish", "matched", "text", "tokens")

    def __init__(self, text: str, tokens: int, finish: Finish, matched: str | None = None) -> None:
        self.text = text
        self.tokens = tokens
        self.finish: Finish = finish
        self.matched = matched
        self._blocks: tuple[int, ...] | None = None

    def blocks(self, prompt: Prompt) -> tuple[int, ...]:
        """Keys of the cache blocks that `prompt` and this answer to it fill."""
        if self._blocks is None:
            self._blocks = blocks_with_answer(prompt, self.text)
        return self._blocks

    def head(self, tokens: int) -> str:
        """The visible text of the first `tokens` tokens."""
        return self.text[: tokens * CHARS_PER_TOKEN]

    def pieces(self, start: int, stop: int) -> list[str]:
        """The visible text of tokens `start` to `stop`, token by token."""
        text = self.text
        end = min(stop * CHARS_PER_TOKEN, len(text))
        return [
            text[at : min(at + CHARS_PER_TOKEN, end)] for at in range(start * CHARS_PER_TOKEN, end, CHARS_PER_TOKEN)
        ]


class Writer:
    """Writes the answers of one model."""

    __slots__ = ("_memo", "_model", "_seed")

    def __init__(self, model: str, seed: int) -> None:
        self._model = model
        self._seed = seed
        self._memo: dict[tuple[object, ...], Output] = {}

    def write(self, prompt: Prompt, sampling: Sampling, choice: int, version: str) -> Output:
        """The answer to a prompt; `choice` numbers the answers of one request."""
        key = (prompt.digest, sampling, choice, version)
        output = self._memo.get(key)
        if output is None:
            if len(self._memo) >= _MEMO_ENTRIES:
                self._memo.clear()
            output = self._memo[key] = self._compose(prompt, sampling, choice, version)
        return output

    def _compose(self, prompt: Prompt, sampling: Sampling, choice: int, version: str) -> Output:
        seed = self._seed if sampling.seed is None else sampling.seed
        if sampling.schema is not None:
            own = hashlib.blake2b(f"{self._model}\n{seed}\n{choice}\n".encode() + prompt.digest).digest()
            return _bounded(json_text(sampling.schema, own), sampling.limit_tokens)
        key = f"{self._model}\n{version}\n{seed}\n{choice}\n".encode() + prompt.digest
        text = speak(key, sampling.limit_tokens * CHARS_PER_TOKEN)
        if sampling.finish == "stop" and text:
            text = text[:-1] + "."
        return _cut(text, sampling)


def _cut(text: str, sampling: Sampling) -> Output:
    """End the text at the stop string that is complete first."""
    at, matched = -1, None
    for stop in sampling.stops:
        found = text.find(stop)
        if found >= 0 and (matched is None or found + len(stop) < at + len(matched)):
            at, matched = found, stop
    if matched is None:
        return Output(text, sampling.limit_tokens, sampling.finish)
    tokens = (at + len(matched) - 1) // CHARS_PER_TOKEN + 1
    return Output(text[:at], tokens, "stop", matched)


def _bounded(text: str, limit_tokens: int) -> Output:
    """A text that ends where it ends, or at the limit."""
    tokens = count_tokens(text)
    if tokens <= limit_tokens:
        return Output(text, tokens, "stop")
    return Output(text[: limit_tokens * CHARS_PER_TOKEN], limit_tokens, "length")


def splice(old: Output, new: Output, produced: int) -> Output:
    """An answer whose first `produced` tokens were generated already and whose rest comes from new weights."""
    if not produced:
        return new
    if new.tokens <= produced:
        return Output(old.head(produced), produced, new.finish, new.matched)
    return Output(old.head(produced) + new.text[produced * CHARS_PER_TOKEN :], new.tokens, new.finish, new.matched)


def token_id(piece: str) -> int:
    """A token's id within the simulated vocabulary."""
    return zlib.crc32(piece.encode()) % VOCABULARY


def logprob(piece: str, rank: int = 0) -> float:
    """A plausible log probability: the same for the same token, and falling with the rank among alternatives."""
    return -(zlib.crc32(piece.encode()) % 1024) / 1024 - rank
