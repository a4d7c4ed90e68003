"""Our control plane under the published package's client, and our client at the published gateway.

The contract is the same, so one scenario runs over both, and over ours alone. Skipped without the published package:
`.bench/published`, where the benchmarks install it, or the environment that SMG_PUBLISHED_VENV names.
"""

import json
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from support.plain_http import get, post
from support.ports import free_ports
from support.processes import engine_process, environment, launched
from support.waiting import PROCESS_WAIT_SECS, eventually

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "tests" / "support" / "rl_scenario.py"
PUBLISHED = Path(os.environ.get("SMG_PUBLISHED_VENV") or ROOT / ".bench" / "published").expanduser()
MODEL = "m"

needs_published = pytest.mark.skipif(
    not (PUBLISHED / "bin" / "smg").exists(), reason="the published package is not installed"
)


@pytest.fixture
def engines():
    with ExitStack() as stack:
        yield [stack.enter_context(engine_process("--model", MODEL)) for _ in range(2)]


# --- gateways and clients


@contextmanager
def our_gateway(engines):
    """It also has a worker that control calls cannot reach, which nobody asks anything."""
    with launched("--enable-rl", "--worker-urls", *engines, workers=len(engines)) as gateway:
        assert post(f"{gateway.url}/workers", {"url": elsewhere(engines)}).status == 202
        eventually(lambda: gateway.readiness().json["healthy_workers"] == len(engines) + 1, "a worker of another kind")
        yield gateway.url


def elsewhere(engines):
    return engines[0].replace("http://", "grpc://")


@contextmanager
def published_gateway(engines):
    port, metrics_port = free_ports(2)
    argv = [PUBLISHED / "bin" / "smg", "launch", "--host", "127.0.0.1", "--port", port, "--enable-rl"]
    argv += ["--prometheus-host", "127.0.0.1", "--prometheus-port", metrics_port, "--worker-urls", *engines]
    running = subprocess.Popen(
        [*map(str, argv)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=foreign_environment()
    )
    url = f"http://127.0.0.1:{port}"

    def healthy():
        assert running.poll() is None
        try:
            return get(f"{url}/readiness").json.get("healthy_workers", 0)
        except OSError:
            return 0

    try:
        eventually(lambda: healthy() == len(engines), "the published gateway's start")
        yield url
    finally:
        running.kill()
        running.wait()


def foreign_environment():
    """That of our processes, but for the path to our package."""
    return {name: value for name, value in environment().items() if name != "PYTHONPATH"}


def our_client(*arguments):
    return played(sys.executable, environment(), arguments)


def published_client(*arguments):
    return played(str(PUBLISHED / "bin" / "python"), foreign_environment(), arguments)


def played(python, variables, arguments):
    """What the scenario told."""
    argv = [python, "-P", str(SCENARIO), *arguments]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=PROCESS_WAIT_SECS, check=False, env=variables, cwd=ROOT / "tests"
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# --- what the contract says

ROW = [
    *("id", "url", "base_url", "engine", "engine_version", "model_id", "worker_type", "connection_mode", "tp_size"),
    *("dp_size", "pp_size", "dp_ranks", "role", "health", "weight_version", "labels", "capabilities"),
]


def expected(first, second, *others):
    """What the scenario has to tell about two engines, and about a gRPC worker beside them."""
    both = {first: 200, second: 200}
    wrong = {
        "total": 2,
        "succeeded": 1,
        "statuses": {first: 500, second: 200},
        "failed": [[first, "upstream_error", 500]],
    }
    unreachable = {
        "total": 2,
        "succeeded": 1,
        "statuses": {second: 200},
        "failed": [[first, "upstream_unreachable", None]],
    }
    never_ran = {"ran": False, "raised": "FanoutError", "failed": [first], "context": "NoneType"}
    ran = {"ran": True, "failed": [], "context": "NoneType"}
    return {
        "discovery": {
            "urls": sorted([first, second]),
            "others": [[other, "grpc"] for other in others],
            "same": True,
            "row": {
                "engine": "sglang",
                "engine_version": "0.5.15.post1",
                "model_id": MODEL,
                "worker_type": "regular",
                "connection_mode": "http",
                "tp_size": 1,
                "dp_size": 1,
                "pp_size": 1,
                "dp_ranks": 1,
                "role": None,
                "health": "ready",
                "weight_version": "default",
                "capabilities": {
                    "source": "static",
                    "pause_modes": ["abort", "retract", "in_place"],
                    "update_from": ["disk", "tensor", "distributed"],
                    "abort": True,
                    "flush_cache": True,
                    "sleep_wake": True,
                    "reports_weight_version": True,
                },
            },
            "nobody": {"status": 404, "code": "worker_not_found", "members": ["error", "id", "message"]},
        },
        "single": {
            "info": [True, first, 200, MODEL, True],
            "without a body": 400,
            "with a body": 200,
            "paused": [True, False],
            "resumed": 200,
            "nobody": {"status": 404, "code": "worker_not_found", "members": ["error", "id", "message"]},
            "no path": {"status": 400, "code": "invalid_engine_path", "members": ["error", "message"]},
            "unreachable": {
                "status": 502,
                "code": "upstream_unreachable",
                "members": ["error", "message", "url", "worker_id"],
            },
            "others": [
                {
                    "status": 422,
                    "code": "unsupported_connection_mode",
                    "members": ["connection_mode", "error", "message", "url", "worker_id"],
                }
                for _ in others
            ],
        },
        "fanned_out": {
            "everybody": {"total": 2, "succeeded": 2, "statuses": both, "failed": []},
            "versions": ["7", "7"],
            "failed": {"status": 207, "code": "fanout_partial", "report": wrong},
            "partial": wrong,
            "unreachable": {"status": 207, "code": "fanout_partial", "report": unreachable},
            "one": {"total": 1, "succeeded": 1, "statuses": {second: 200}, "failed": []},
            "others": {
                "total": 1,
                "succeeded": 0,
                "statuses": {},
                "failed": [[others[0], "unsupported_connection_mode", None]],
            }
            if others
            else None,
            "no match": {"status": 400, "code": "no_workers_match", "members": ["error", "message", "selector"]},
            "no selector": {"status": 400, "code": "selector_required", "members": ["error", "message"]},
            "bad selector": {"status": 400, "code": "invalid_selector", "members": ["error", "message", "offset"]},
        },
        "pausing": {
            "inside": [[True, "keep"], [True, "keep"]],
            "after": [False, False],
            "a pause that fails": never_ran | {"paused": [False, False]},
            "a block that fails": ran | {"raised": "LookupError", "paused": [False, False]},
            "a resume that fails": ran | {"raised": "FanoutError", "failed": [first], "paused": [True, False]},
            "a block and a resume that fail": ran
            | {"raised": "LookupError", "context": "FanoutError", "paused": [True, False]},
        },
        "row": sorted(ROW),
    }


def differences(told, wanted, where=""):
    """Where two scenarios part, as `path: told, not wanted`."""
    if not (isinstance(told, dict) and isinstance(wanted, dict)):
        return [] if told == wanted else [f"{where}: {told!r}, not {wanted!r}"]
    names = [*wanted, *(name for name in told if name not in wanted)]
    return [
        line
        for name in names
        for line in differences(told.get(name), wanted.get(name), f"{where}.{name}" if where else name)
    ]


# --- the pairs


def test_our_client_and_our_gateway_keep_the_contract(engines):
    with our_gateway(engines) as url:
        assert differences(our_client(url, *engines), expected(*engines, elsewhere(engines))) == []


@needs_published
def test_the_published_client_works_with_our_gateway(engines):
    with our_gateway(engines) as url:
        assert differences(published_client(url, *engines), expected(*engines, elsewhere(engines))) == []


@needs_published
def test_our_client_works_with_the_published_gateway(engines):
    with published_gateway(engines) as url:
        told = our_client(url, *engines)
    # It says where control calls go, which the contract leaves to `base_url`.
    assert sorted(set(told.pop("row")) - set(ROW)) == ["control_url"]
    assert differences(told | {"row": sorted(ROW)}, expected(*engines)) == []
