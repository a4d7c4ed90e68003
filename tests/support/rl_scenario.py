"""A trainer's day with `smg.rl`, whichever package that name finds: `python rl_scenario.py GATEWAY ENGINE ENGINE`.

It runs in a process of its own, calls every public method, and prints what each came to as one JSON object. The engines
are simulated ones; it tells them what to get wrong, and asks them what became of them.
"""

import json
import sys
from contextlib import contextmanager
from urllib.request import Request, urlopen

from smg.rl import RL, FanoutError, RlError, paused

EVERYONE = "engine=sglang, connection_mode=http"


def main(gateway, *engines):
    rl = RL(gateway, timeout=20)
    told = {part.__name__: part(rl, engines) for part in (discovery, single, fanned_out, pausing)}
    told["row"] = members(gateway)
    sys.stdout.write(json.dumps(told))


def discovery(rl, engines):
    workers = rl.workers()
    first = next(worker for worker in workers if worker.url == engines[0])
    return {
        "urls": sorted(worker.url for worker in workers if worker.connection_mode == "http"),
        "others": [(worker.url, worker.connection_mode) for worker in workers if worker.connection_mode != "http"],
        "same": rl.worker(first.id) == first,
        "row": {name: getattr(first, name) for name in _ROW},
        "nobody": refusal(lambda: rl.worker("nobody")),
    }


_ROW = (
    *("engine", "engine_version", "model_id", "worker_type", "connection_mode", "tp_size", "dp_size", "pp_size"),
    *("dp_ranks", "role", "health", "weight_version", "capabilities"),
)


def single(rl, engines):
    worker = next(worker for worker in rl.workers() if worker.url == engines[0])
    info = rl.call(worker.id, "server_info", method="GET", params={"a": "b"})
    with faulty(engines[0], "/flush_cache", "reset"):
        unreachable = refusal(lambda: rl.call(worker.id, "flush_cache"))
    return {
        "info": (info.worker_id == worker.id, info.url, info.status, info.body["model_path"], info.latency_ms >= 0),
        "without a body": rl.call(worker.id, "pause_generation").status,
        "with a body": rl.call(worker.id, "pause_generation", {}, timeout=10).status,
        "paused": states(engines),
        "resumed": rl.call(worker.id, "continue_generation", {}).status,
        "nobody": refusal(lambda: rl.call("nobody", "flush_cache")),
        "no path": refusal(lambda: rl.call(worker.id, "a/b/c/d/e")),
        "unreachable": unreachable,
        "others": [
            refusal(lambda other=other: rl.call(other.id, "flush_cache"))
            for other in rl.workers()
            if other.connection_mode != "http"
        ],
    }


def fanned_out(rl, engines):
    refit = {"model_path": "/ckpt/7", "weight_version": "7"}
    everybody = rl.fanout("update_weights_from_disk", refit, selector=EVERYONE)
    with faulty(engines[0], "/flush_cache", "error"):
        failed = refusal(lambda: rl.fanout("flush_cache", selector=EVERYONE))
        partial = rl.fanout("flush_cache", selector=EVERYONE, allow_partial=True, timeout=10)
    with faulty(engines[0], "/flush_cache", "reset"):
        unreachable = refusal(lambda: rl.fanout("flush_cache", selector=EVERYONE))
    one = rl.fanout("server_info", selector=f'base_url="{engines[1]}"', method="GET", params={"a": "b"})
    return {
        "everybody": report(everybody),
        "versions": [state(engine)["weight_version"] for engine in engines],
        "failed": failed,
        "partial": report(partial),
        "unreachable": unreachable,
        "one": report(one),
        "others": report(rl.fanout("flush_cache", selector="connection_mode!=http", allow_partial=True))
        if any(worker.connection_mode != "http" for worker in rl.workers())
        else None,
        "no match": refusal(lambda: rl.fanout("flush_cache", selector="engine=vllm")),
        "no selector": refusal(lambda: rl.fanout("flush_cache", selector="")),
        "bad selector": refusal(lambda: rl.fanout("flush_cache", selector="engine")),
    }


def pausing(rl, engines):
    told = {}
    with paused(rl, EVERYONE, mode="in_place", timeout=10):
        told["inside"] = [(s["paused"], s["pause_mode"]) for s in map(state, engines)]
    told["after"] = states(engines)
    for name, wrong, block in (
        ("a pause that fails", "/pause_generation", fine),
        ("a block that fails", "", failing),
        ("a resume that fails", "/continue_generation", fine),
        ("a block and a resume that fail", "/continue_generation", failing),
    ):
        told[name] = one_pause(rl, engines, wrong, block)
    return told


def fine():
    """Nothing goes wrong in this block."""


def failing():
    raise LookupError("checkpoint")


def one_pause(rl, engines, wrong, block):
    ran, error = [], None
    with faulty(engines[0], wrong, "error"):
        try:
            with paused(rl, EVERYONE):
                ran.append(1)
                block()
        except (FanoutError, LookupError) as raised:
            error = raised
        left = states(engines)
    for engine in engines:
        post(f"{engine}/continue_generation", {})
    context = error.__context__ if error is not None else None
    return {
        "ran": bool(ran),
        "raised": type(error).__name__,
        "failed": [failure.url for failure in error.result.failed] if isinstance(error, FanoutError) else [],
        "context": type(context).__name__,
        "paused": left,
    }


# --- what came of it


def report(result):
    return {
        "total": result.total,
        "succeeded": result.succeeded,
        "statuses": {answer.url: answer.status for answer in result.results.values()},
        "failed": [(failure.url, failure.error, failure.status) for failure in result.failed],
    }


def refusal(act):
    """The error that an act raises."""
    try:
        act()
    except FanoutError as error:
        return {"status": error.status, "code": error.code, "report": report(error.result)}
    except RlError as error:
        members = sorted(error.payload) if isinstance(error.payload, dict) else None
        return {"status": error.status, "code": error.code, "members": members}
    return None


def members(gateway):
    """What a row of discovery has on the wire, where a client may pass over what it does not know."""
    with urlopen(f"{gateway}/v1/rl/workers") as answer:
        return sorted(json.load(answer)["workers"][0])


# --- the engines


@contextmanager
def faulty(engine, path, kind):
    """An engine that gets one path wrong; with no path, nothing is wrong."""
    if path:
        post(f"{engine}/sim/faults", {"path": path, "kind": kind, "status": 500})
    try:
        yield
    finally:
        with urlopen(Request(f"{engine}/sim/faults", method="DELETE")):
            pass


def state(engine):
    with urlopen(f"{engine}/sim/state") as answer:
        return json.load(answer)


def states(engines):
    return [state(engine)["paused"] for engine in engines]


def post(url, body):
    request = Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urlopen(request):
        pass


if __name__ == "__main__":
    main(*sys.argv[1:])
