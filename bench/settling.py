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

from bench.conversations import PROFILES, agent_chat
from bench.report import aligned
from smg.protocol.body import edit
from smg.protocol.contracts import settle
from smg.protocol.decoding import decode
from smg.protocol.requests import ChatRequest

BATCHES = 5
KIB = 1024


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.settling", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.1, help="time for a batch (%(default)s)")
    parser.add_argument("--kilobytes", type=int, default=32, help="size of the conversation (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print one object")
    args = parser.parse_args()
    costs = {
        name: settling_us(agent_chat(model, args.kilobytes * KIB), args.seconds) for name, model in PROFILES.items()
    }
    if args.json:
        print(json.dumps({f"{name}_us": us for name, us in costs.items()}))
    else:
        print(aligned([("profile", "cost"), *((name, f"{us:.1f} µs") for name, us in costs.items())]))
    return 0


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
                edit(body, settle(decode(ChatRequest, body), body)[0])
            end = time.process_time()
            best = min(best, ((end - read) - (read - start)) / rounds)
            rounds = max(1, int(rounds * seconds / (end - start)))
    finally:
        gc.enable()
    return best * 1e6


if __name__ == "__main__":
    sys.exit(main())
