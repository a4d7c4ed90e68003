"""The requests of the soak, and the answers that are right.

Every request has an id of its own, in its `rid`, which the engine answers with, and in its prompt, from which the text
of the answer follows. So an answer that belongs to another request is known by both.
"""

import json
import random
import re
from dataclasses import dataclass

from bench import wire
from bench.soak.accounts import REFUSED, SPOILED, WHOLE, WRONG
from smg.sim.options import SimOptions
from smg.sim.output import Writer
from smg.sim.requests import Reader

ENGINE = SimOptions(
    model=wire.MODEL, tokens_per_second=1000.0, ttft_ms=10.0, max_running_requests=8, kv_capacity_tokens=50_000
)
RID = re.compile(rb"soak-\d{7}")
DONE = "[DONE]"

_LEAST_TOKENS, _MOST_TOKENS = 16, 96
_LARGE_ANSWER = {"n": 8, "logprobs": True, "top_logprobs": 5, "max_tokens": 48}
# Three seconds of work, unless somebody tells the engine to stop.
_LONG_ANSWER = {"min_tokens": 3000, "max_tokens": 3000}
_SYSTEMS = [wire.document(600, seed) for seed in range(8)]
# Above the gateway's limit for bodies that it keeps for a retry (see `run.py`), and far below it.
_UPLOAD_BYTES, _MESSAGE_BYTES = 150_000, 120
# With these a policy that places by the prompt can do without, and a large body passes through unread.
_TOKENS_HEADER = "X-SMG-Routing-Tokens: 11,22,33,44\r\n"


@dataclass(frozen=True, slots=True)
class Request:
    """`single` ones pass through the gateway unread, which can therefore try them only once."""

    rid: str
    head: bytes
    body: bytes
    stream: bool
    single: bool
    expected: tuple[str, ...]  # the text of each choice


class Author:
    """Writes requests, and knows what the engines make of them."""

    def __init__(self, chance: random.Random, port: int) -> None:
        self._chance = chance
        self._port = port
        self._reader = Reader(ENGINE.output_tokens, ENGINE.context_tokens)
        self._writer = Writer(ENGINE.model, ENGINE.seed)

    def write(self, number: int, kind: str) -> Request:
        """A request of a kind: `plain`, `stream`, `large` or `long` (answers), or `upload` (a large request)."""
        chance, rid = self._chance, f"soak-{number:07d}"
        upload = kind == "upload"
        text = f"{rid}: " + "what of it? " * ((_UPLOAD_BYTES if upload else _MESSAGE_BYTES) // 12)
        fields: dict[str, object] = {
            "model": wire.MODEL,
            "rid": rid,
            "stream": kind == "stream" or (kind in {"upload", "long"} and chance.random() < 0.5),
            "messages": [
                {"role": "system", "content": chance.choice(_SYSTEMS)},
                {"role": "user", "content": text},
            ],
            "max_tokens": chance.randint(_LEAST_TOKENS, _MOST_TOKENS),
        }
        fields |= {"large": _LARGE_ANSWER, "long": _LONG_ANSWER}.get(kind, {})
        body = json.dumps(fields).encode()
        chunked = upload and chance.random() < 0.3
        framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
            f"Content-Type: application/json\r\n{_TOKENS_HEADER if upload else ''}{framing}\r\n\r\n"
        )
        return Request(
            rid,
            head.encode(),
            wire.chunk(body) + wire.LAST_CHUNK if chunked else body,
            bool(fields["stream"]),
            single=upload and not chunked,
            expected=self._answers(body),
        )

    def _answers(self, body: bytes) -> tuple[str, ...]:
        call = self._reader.generation("chat", body)
        write, version = self._writer.write, ENGINE.weight_version
        return tuple(write(call.prompts[0], call.samplings[0], at, version).text for at in range(call.choices))


def judge(request: Request, status: int, body: bytes) -> str:
    """What a complete HTTP answer is worth to the request it was given to."""
    if {rid.decode() for rid in RID.findall(body)} - {request.rid}:
        return WRONG
    if status != 200:
        return REFUSED
    return _judge_stream(request, body) if request.stream else _judge_plain(request, body)


def _judge_plain(request: Request, body: bytes) -> str:
    try:
        answer = json.loads(body)
    except ValueError:
        return SPOILED
    texts = tuple(choice["message"]["content"] for choice in answer["choices"])
    return WHOLE if answer["id"] == request.rid and texts == request.expected else WRONG


def _judge_stream(request: Request, body: bytes) -> str:
    """A stream that ends early or with an error must still be the beginning of the right one."""
    text, whole, garbled = "", False, False
    for event in body.decode().split("\n\n"):
        data = event.removeprefix("data: ")
        if data == DONE:
            whole = True
        elif data:
            try:
                chunk = json.loads(data)
            except ValueError:
                garbled = True
                continue
            if "error" in chunk:
                garbled = True
            elif chunk["id"] != request.rid:
                return WRONG
            else:
                text += "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])
    if whole and not garbled:
        return WHOLE if text == request.expected[0] else WRONG
    return SPOILED if garbled or request.expected[0].startswith(text) else WRONG
