"""Plays the trace of conversations: `python -m bench.load_trace`.

Turns are sent in the order of the trace, so many at a time; a turn waits until the one before it in its conversation
is answered, and sends what the engine answered along with the rest of the history. An answer other than 200 ends the
run with an error.
"""

import argparse
import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus

import uvloop

from bench import wire
from bench.conversation_trace import Turn, turns
from bench.plain_http import PlainClient

ANSWER_TOKENS = 96


@dataclass(slots=True)
class Player:
    """The turns that are still to be sent, and what each conversation has come to."""

    turns: Iterator[Turn]
    histories: dict[int, list[dict[str, str]]] = field(default_factory=dict)
    # Turns that came up while their conversation had one under way; the key stays until none waits.
    waiting: dict[int, deque[Turn]] = field(default_factory=dict)
    ready: deque[Turn] = field(default_factory=deque)

    def next(self) -> Turn | None:
        """The first turn in order that may be sent; None when those left wait for answers, or none is left."""
        if self.ready:
            return self.ready.popleft()
        for turn in self.turns:
            waiting = self.waiting.get(turn.conversation)
            if waiting is None:
                self.waiting[turn.conversation] = deque()
                return turn
            waiting.append(turn)
        return None

    def ask(self, turn: Turn) -> list[dict[str, str]]:
        """The messages of a turn."""
        opening = [{"role": "system", "content": turn.system}]
        history = self.histories.setdefault(turn.conversation, opening)
        history.append({"role": "user", "content": turn.says})
        return history

    def answered(self, turn: Turn, content: str) -> None:
        self.histories[turn.conversation].append({"role": "assistant", "content": content})
        waiting = self.waiting[turn.conversation]
        if waiting:
            self.ready.append(waiting.popleft())
        else:
            del self.waiting[turn.conversation]
        if turn.last:
            del self.histories[turn.conversation]


async def play(player: Player, port: int, news: asyncio.Condition) -> int:
    """Send turns over one connection until none is left; returns how many."""
    client = await PlainClient.to(port)
    played = 0
    while (turn := await _next(player, news)) is not None:
        body = wire.chat_body(messages=player.ask(turn), max_tokens=ANSWER_TOKENS)
        answer = await client.ask(wire.chat_request(port, body))
        if answer.status != HTTPStatus.OK:
            raise RuntimeError(f"the gateway answered {answer.status}: {answer.body[:200]!r}")
        async with news:
            player.answered(turn, json.loads(answer.body)["choices"][0]["message"]["content"])
            news.notify_all()
        played += 1
    client.close()
    return played


async def _next(player: Player, news: asyncio.Condition) -> Turn | None:
    """The next turn, waiting for answers if it must; None when all are played."""
    async with news:
        while (turn := player.next()) is None and player.waiting:
            await news.wait()
        return turn


async def run(args: argparse.Namespace) -> dict[str, float]:
    player, news = Player(turns()), asyncio.Condition()
    begun_at = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        players = [group.create_task(play(player, args.port, news)) for _ in range(args.connections)]
    played = sum(task.result() for task in players)
    return {"requests": float(played), "wall_secs": time.perf_counter() - begun_at}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.load_trace")
    for name in ("--port", "--gateway-pid", "--workers-pid", "--connections"):
        parser.add_argument(name, type=int, required=True)
    try:
        print(json.dumps(uvloop.run(run(parser.parse_args()))))
    except* (RuntimeError, OSError, EOFError) as group:
        sys.exit(f"bench.load_trace: {group.exceptions[0]}")


if __name__ == "__main__":
    main()
