"""What bringing a chat into its one form costs: `python -m bench.settling`.

The rules of the route, the profile of the model's family and the edits of the body, for a conversation of
`--kilobytes`; reading the JSON, which placing needs as well, is not in it. A figure is processor time, and the best of
several batches: what else the machine did only ever adds to it.
"""

import argparse
import gc
import json
import sys
import time

from bench.report import aligned
from smg.protocol.body import edit
from smg.protocol.contracts import settle
from smg.protocol.decoding import decode
from smg.protocol.requests import ChatRequest

BATCHES = 5
KIB = 1024
_TURN = "One of the turns of a conversation that has been going on for a while. "
# A model of each profile.
MODELS = {
    "baseline": "gpt-5",
    "kimi": "kimi-k2",
    "kimi_k3": "kimi-k3",
    "minimax": "minimax-m2",
    "zai": "glm-4.7",
    "glm_53": "glm-5.3",
    "deepseek_v4": "deepseek-v4-pro",
    "deepseek_v41": "deepseek-v4.1-flash",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.settling", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.1, help="time for a batch (%(default)s)")
    parser.add_argument("--kilobytes", type=int, default=32, help="size of the conversation (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print one object")
    args = parser.parse_args()
    costs = {name: settling_us(chat(model, args.kilobytes * KIB), args.seconds) for name, model in MODELS.items()}
    if args.json:
        print(json.dumps({f"{name}_us": us for name, us in costs.items()}))
    else:
        print(aligned([("profile", "cost"), *((name, f"{us:.1f} µs") for name, us in costs.items())]))
    return 0


def chat(model: str, size: int) -> bytes:
    """A conversation of about that size, with tools, as agents have them."""
    turn = _TURN * 14
    messages = [{"role": ("user", "assistant")[n % 2], "content": turn} for n in range(size // len(turn))]
    tools = [{"type": "function", "function": {"name": f"tool_{n}", "description": _TURN}} for n in range(4)]
    body = {"model": model, "messages": [*messages, {"role": "user", "content": "And?"}], "tools": tools}
    return json.dumps({**body, "stream": True, "max_tokens": 100}).encode()


def settling_us(body: bytes, seconds: float) -> float:
    """Microseconds beyond those of reading the request."""
    rounds, best = 1, float("inf")
    gc.disable()
    try:
        for _ in range(BATCHES):
            start = time.process_time()
            for _ in range(rounds):
                decode(ChatRequest, body)
            read = time.process_time()
            for _ in range(rounds):
                edit(body, settle(decode(ChatRequest, body), body).edits)
            end = time.process_time()
            best = min(best, ((end - read) - (read - start)) / rounds)
            rounds = max(1, int(rounds * seconds / (end - start)))
    finally:
        gc.enable()
    return best * 1e6


if __name__ == "__main__":
    sys.exit(main())
