"""The scheduler of a simulated engine: what runs, what waits, and how many tokens exist at a given time.

Time is an argument everywhere, so the machine can be driven by a test as well as by a clock. Requests wait first come,
first served, for a place among the running ones and for room in the KV cache. A running request is prefilled (one
prompt after the other at the engine's rate, cached tokens for free), then yields its tokens at a steady rate. While the
engine is frozen no token appears; on thawing every schedule moves on by the time that was lost.

`next_due` says when `tick` has something to do; calling it later only makes several tokens appear together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf

from smg.sim.output import Finish, Output, Sampling
from smg.sim.prefix_cache import PrefixCache
from smg.sim.prompt import BLOCK_TOKENS, Prompt
from smg.sim.throughput import Throughput

# Schedules are computed, not accumulated, yet a token due exactly now may come out a hair later.
_ROUNDING_TOKENS = 1e-6


@dataclass(frozen=True, slots=True)
class Pace:
    """How long work takes; 0 = no time."""

    token_secs: float = 0.0
    prefill_token_secs: float = 0.0
    ttft_secs: float = 0.0


class Sequence:
    """One answer in the making. `ended` is None while it lives; `on_progress` hears of every new token and of the end.

    `rank` is the data-parallel rank it runs on; `position` (its place in the answer) and `sent` (tokens already
    sent) belong to whoever answers with it.
    """

    __slots__ = (
        "cached_tokens",
        "choice",
        "ended",
        "first_token_at",
        "on_progress",
        "output",
        "position",
        "produced",
        "prompt",
        "rank",
        "reserved_tokens",
        "retractions",
        "rid",
        "sampling",
        "sent",
        "submitted_at",
    )

    def __init__(
        self,
        rid: str,
        prompt: Prompt,
        sampling: Sampling,
        output: Output,
        on_progress: Progress,
        *,
        choice: int = 0,
        rank: int = 0,
    ) -> None:
        self.rid = rid
        self.prompt = prompt
        self.sampling = sampling
        self.choice = choice
        self.output = output
        self.on_progress = on_progress
        self.rank = rank
        self.reserved_tokens = 0
        self.produced = 0
        self.position = 0
        self.sent = 0
        self.cached_tokens = 0
        self.retractions = 0
        self.submitted_at = 0.0
        self.first_token_at = inf
        self.ended: Finish | None = None

    @property
    def text(self) -> str:
        """What has been generated so far."""
        return self.output.head(self.produced)


Progress = Callable[[Sequence], None]


class Scheduler:
    """Runs at most `max_running` sequences within `kv_tokens` tokens of KV cache."""

    def __init__(self, pace: Pace, max_running: int, kv_tokens: int, cache: PrefixCache) -> None:
        self.pace = pace
        self.max_running = max_running
        self.kv_tokens = kv_tokens
        self.cache = cache
        self.running: dict[Sequence, None] = {}
        self.waiting: deque[Sequence] = deque()
        self.next_due = inf
        self.served = 0
        self.aborted = 0
        self.retracted = 0
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.generated_tokens = 0
        self.throughput = Throughput()
        self._reserved_tokens = 0
        self._prefill_free_at = 0.0
        self._frozen_at: float | None = None
        self._holds = 0

    # --- requests

    def submit(self, sequence: Sequence, now: float) -> None:
        """Take a sequence in; it may run, and even end, before this returns."""
        sequence.submitted_at = now
        self.waiting.append(sequence)
        self._admit(now)

    def abort(self, sequence: Sequence, now: float) -> bool:
        """End a sequence where it is; returns False when it had ended before."""
        if sequence.ended:
            return False
        if sequence in self.running:
            self._leave(sequence)
        else:
            self.waiting.remove(sequence)
        sequence.ended = "abort"
        self.aborted += 1
        sequence.on_progress(sequence)
        self._admit(now)
        return True

    def tick(self, now: float) -> None:
        """Let everything happen that is due by `now`."""
        if self._frozen_at is not None:
            return
        self.next_due = inf
        for sequence in list(self.running):
            self._step(sequence, now)
        self._admit(now)

    def live(self) -> list[Sequence]:
        """All sequences that have not ended, oldest first."""
        return [*self.running, *self.waiting]

    # --- standing still

    @property
    def frozen(self) -> bool:
        return self._frozen_at is not None

    def freeze(self, now: float, *, retract: bool = False) -> None:
        """Produce nothing from here on. With `retract` the running go back in line, first and without KV."""
        if self._frozen_at is None:
            self.tick(now)
            self._frozen_at = now
            self.next_due = inf
        if retract:
            for sequence in reversed(list(self.running)):
                self._leave(sequence)
                sequence.retractions += 1
                self.retracted += 1
                self.waiting.appendleft(sequence)

    def thaw(self, now: float) -> None:
        """Go on."""
        if self._frozen_at is None:
            return
        lost_secs = now - self._frozen_at
        self._frozen_at = None
        self._prefill_free_at += lost_secs
        for sequence in self.running:
            sequence.first_token_at += lost_secs
        self.tick(now)

    def hold(self) -> None:
        """Start nothing new until released; what runs goes on. Holds nest."""
        self._holds += 1

    def release(self, now: float) -> None:
        self._holds -= 1
        self._admit(now)

    # --- figures

    @property
    def used_tokens(self) -> int:
        """Tokens in the KV cache that belong to running sequences."""
        return sum([sequence.prompt.tokens + sequence.produced for sequence in self.running])

    def uncached_tokens(self, sequences: Iterable[Sequence]) -> int:
        """Prompt tokens of sequences that the cache does not cover."""
        covered = self.cache.covered
        return sum([s.prompt.tokens - covered(s.prompt.blocks) * BLOCK_TOKENS for s in sequences])

    # --- inside

    def _admit(self, now: float) -> None:
        waiting = self.waiting
        while waiting and self._frozen_at is None and not self._holds and len(self.running) < self.max_running:
            sequence = waiting[0]
            need = sequence.prompt.tokens + sequence.output.tokens
            if self.running and self._reserved_tokens + need > self.kv_tokens:
                return
            waiting.popleft()
            self._begin(sequence, now)
            self._step(sequence, now)

    def _begin(self, sequence: Sequence, now: float) -> None:
        prompt = sequence.prompt
        self.running[sequence] = None
        sequence.reserved_tokens = prompt.tokens + sequence.output.tokens
        self._reserved_tokens += sequence.reserved_tokens
        # The last token of a prompt is always computed: its output is the first token of the answer.
        cached = min(
            self.cache.match(prompt.blocks) * BLOCK_TOKENS, max(prompt.tokens - 1, 0) // BLOCK_TOKENS * BLOCK_TOKENS
        )
        sequence.cached_tokens = cached
        self.prompt_tokens += prompt.tokens
        self.cached_tokens += cached
        pace = self.pace
        uncached = prompt.tokens + sequence.produced - cached
        ready_at = max(now, self._prefill_free_at) + uncached * pace.prefill_token_secs
        self._prefill_free_at = ready_at
        sequence.first_token_at = ready_at + pace.ttft_secs - sequence.produced * pace.token_secs

    def _step(self, sequence: Sequence, now: float) -> None:
        """Give a running sequence the tokens that are due."""
        pace = self.pace
        due = sequence.first_token_at + sequence.produced * pace.token_secs
        if now < due:
            self.next_due = min(self.next_due, due)
            return
        total = sequence.output.tokens
        before = sequence.produced
        if pace.token_secs:
            made = int((now - sequence.first_token_at) / pace.token_secs + _ROUNDING_TOKENS) + 1
            total_now = min(total, max(made, before + 1))
        else:
            total_now = total
        sequence.produced = total_now
        self.generated_tokens += total_now - before
        self.throughput.add(total_now - before, now)
        if total_now >= total:
            self._leave(sequence)
            sequence.ended = sequence.output.finish
            self.served += 1
            self.cache.insert(sequence.output.blocks(sequence.prompt) if total else sequence.prompt.blocks)
        else:
            self.next_due = min(self.next_due, sequence.first_token_at + total_now * pace.token_secs)
            if not before:
                self.cache.insert(sequence.prompt.blocks)
        sequence.on_progress(sequence)

    def _leave(self, sequence: Sequence) -> None:
        del self.running[sequence]
        self._reserved_tokens -= sequence.reserved_tokens
