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

import uvloop

from bench import trace, wire

ANSWER_TOKENS = 96


@dataclass(slots=True)
class Player:
    """The turns that are still to be sent, and what each conversation has come to."""

    turns: Iterator[trace.Turn]
    histories: dict[int, list[dict[str, str]]] = field(default_factory=dict)
    # Turns that came up while their conversation had one under way; the key stays until none waits.
    waiting: dict[int, deque[trace.Turn]] = field(default_factory=dict)
    ready: deque[trace.Turn] = field(default_factory=deque)

    def next(self) -> trace.Turn | None:
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

    def ask(self, turn: trace.Turn) -> list[dict[str, str]]:
        """The messages of a turn."""
        opening = [{"role": "system", "content": turn.system}]
        history = self.histories.setdefault(turn.conversation, opening)
        history.append({"role": "user", "content": turn.says})
        return history

    def answered(self, turn: trace.Turn, content: str) -> None:
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
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    played = 0
    while True:
        async with news:
            while (turn := player.next()) is None:
                if not player.waiting:
                    news.notify_all()
                    writer.close()
                    return played
                await news.wait()
        body = wire.chat_body(messages=player.ask(turn), max_tokens=ANSWER_TOKENS)
        writer.write(wire.chat_request(port, body))
        answer = json.loads(await _read_answer(reader))
        player.answered(turn, answer["choices"][0]["message"]["content"])
        played += 1
        async with news:
            news.notify()


async def _read_answer(reader: asyncio.StreamReader) -> bytes:
    """The body of an answer; raises `RuntimeError` unless it is a 200."""
    head = await reader.readuntil(wire.HEAD_END)
    length = wire.content_length(head[: -len(wire.HEAD_END)])
    if length is not None:
        body = await reader.readexactly(length)
    else:
        body = b""
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"the gateway answered {head[:200]!r} {body[:200]!r}")
    return body


async def run(args: argparse.Namespace) -> dict[str, float]:
    player, news = Player(trace.turns()), asyncio.Condition()
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
    except* (RuntimeError, OSError, asyncio.IncompleteReadError) as group:
        sys.exit(f"bench.load_trace: {group.exceptions[0]}")


if __name__ == "__main__":
    main()
