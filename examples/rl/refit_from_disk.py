"""Load a checkpoint into every engine that a selector names, and see that generation uses it.

Pauses the engines, has each load its weights from a path that all of them can read, and resumes them. Then sends one
`/generate` through the gateway and compares the weight version that the engine reports: discovery keeps showing the
version that was read when a worker registered.

    SMG_URL=http://gateway:30000 SMG_ADMIN_TOKEN=... \
        python refit_from_disk.py --model-path /ckpt/step-42 --weight-version 42

Everything can be given as a flag or in the environment (`--help` says how). Engines are SGLang's. Ends with 0 when the
new version answers, with 1 and the reason otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

from smg.rl import RL, FanoutError, FanoutResult, RlError, paused

GENERATE_TIMEOUT_SECS = 120.0


def main(argv: Sequence[str] | None = None) -> int:
    """Refit and check; returns the exit status."""
    options = parser().parse_args(argv)
    rl = RL(options.url, api_key=os.environ.get("SMG_ADMIN_TOKEN"), timeout=options.timeout)
    try:
        show_workers(rl)
        refit(rl, options.selector, options.model_path, options.weight_version)
        found = generated_version(options.url, options.model, os.environ.get("SMG_API_KEY"))
    except FanoutError as error:
        for failure in error.result.failed:
            print(f"{failure.worker_id} ({failure.url}): {failure.error}: {failure.message}", file=sys.stderr)
        return 1
    except (RlError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    if found != options.weight_version:
        print(f"/generate was answered with weight version {found}, not {options.weight_version}", file=sys.stderr)
        return 1
    print(f"/generate is answered with weight version {found}")
    return 0


def show_workers(rl: RL) -> None:
    """Print what the gateway knows about its engines."""
    for worker in rl.workers():
        print(
            f"{worker.id}  {worker.base_url}  {worker.engine} {worker.engine_version or '?'}"
            f"  tp={worker.tp_size}  {worker.health}  registered with weights {worker.weight_version}"
        )


def refit(rl: RL, selector: str, model_path: str, weight_version: str) -> FanoutResult:
    """Load the checkpoint everywhere while nothing is generated. Raises FanoutError when an engine could not."""
    body = {"model_path": model_path, "weight_version": weight_version, "flush_cache": True}
    with paused(rl, selector):
        report = rl.fanout("update_weights_from_disk", body, selector=selector)
    for worker_id, result in report.results.items():
        print(f"{worker_id}  HTTP {result.status} in {result.latency_ms} ms")
    return report


def generated_version(url: str, model: str | None, api_key: str | None) -> str | None:
    """The weight version of the engine that answers one request. Raises OSError when none does.

    This is a request for inference: it takes the key of inference, which may be another than the control plane's.
    """
    body: dict[str, Any] = {"text": "The capital of France is", "sampling_params": {"max_new_tokens": 8}}
    if model is not None:
        body["model"] = model
    headers = {"Content-Type": "application/json"}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    request = Request(f"{url.rstrip('/')}/generate", json.dumps(body).encode(), headers)  # noqa: S310  RL took this URL
    with build_opener(ProxyHandler({})).open(request, timeout=GENERATE_TIMEOUT_SECS) as reply:
        answer = json.load(reply)
    version = answer.get("meta_info", {}).get("weight_version")
    return None if version is None else str(version)


def parser() -> argparse.ArgumentParser:
    """What can be said on the command line, or else in the environment."""
    parser = argparse.ArgumentParser(
        description="Load a checkpoint into SGLang engines behind a gateway, and check that it is in use.",
        epilog="SMG_ADMIN_TOKEN is the key of the control plane, SMG_API_KEY that of inference.",
    )

    def add(flag: str, variable: str, default: str | None, meaning: str) -> None:
        given = os.environ.get(variable, default)
        parser.add_argument(flag, default=given, required=given is None, help=f"{meaning} ({variable})")

    add("--url", "SMG_URL", "http://127.0.0.1:30000", "the gateway")
    add("--selector", "REFIT_SELECTOR", "engine=sglang", "which workers are refitted")
    add("--model-path", "REFIT_MODEL_PATH", None, "the checkpoint, at a path that every engine can read")
    add("--weight-version", "REFIT_WEIGHT_VERSION", None, "the version to give the new weights")
    parser.add_argument("--model", help="the model to generate with, where the gateway serves several")
    # Longer than the gateway's own bound (600 s), so that it names a slow engine before this client gives up.
    parser.add_argument("--timeout", type=float, default=1200.0, help="the bound of each request, in seconds")
    return parser


if __name__ == "__main__":
    sys.exit(main())
