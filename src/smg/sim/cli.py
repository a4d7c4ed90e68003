"""`smg sim`: one simulated engine as a process."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from dataclasses import fields
from typing import Any

import uvloop

from smg.sim.engine import SimEngine
from smg.sim.faults import Fault, fault_spec, parse_fault_spec
from smg.sim.options import ENGINE_NAMES, SimOptions


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that shape an engine, without those that say where it listens."""
    defaults = SimOptions()
    group = parser.add_argument_group("simulated engine")
    group.add_argument("--engine", choices=ENGINE_NAMES, default=defaults.engine, help="the engine to look like")
    group.add_argument(
        "--tokens-per-second", type=float, default=0.0, metavar="F", help="decode rate of a request; 0 = at once"
    )
    group.add_argument(
        "--prefill-tokens-per-second",
        type=float,
        default=0.0,
        metavar="F",
        help="prefill rate of the engine; 0 = at once",
    )
    group.add_argument("--ttft-ms", type=float, default=0.0, metavar="F", help="added before every first token")
    group.add_argument("--max-running-requests", type=int, default=defaults.max_running_requests, metavar="N")
    group.add_argument("--kv-capacity-tokens", type=int, default=defaults.kv_capacity_tokens, metavar="N")
    group.add_argument(
        "--output-tokens",
        type=int,
        default=defaults.output_tokens,
        metavar="N",
        help="length of an answer without a limit",
    )
    group.add_argument("--context-tokens", type=int, default=defaults.context_tokens, metavar="N")
    group.add_argument("--weight-version", default=defaults.weight_version, metavar="V")
    group.add_argument("--seed", type=int, default=0, metavar="N", help="another seed speaks other text")
    group.add_argument(
        "--fault",
        action="append",
        default=[],
        type=_fault,
        metavar="SPEC",
        help="kind=error,path=/v1/chat/completions,status=503,count=2; may be repeated",
    )


def _fault(spec: str) -> Fault:
    try:
        return parse_fault_spec(spec)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="smg sim", description="Run a simulated inference engine.", allow_abbrev=False
    )
    parser.add_argument("--model", default=SimOptions().model, help="the name of its model")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--dp-size", type=int, default=1, metavar="N", help="data-parallel ranks it reports")
    parser.add_argument("--api-key", default="", help="the key it asks for")
    add_engine_arguments(parser)
    return parser


def engine_values(arguments: argparse.Namespace) -> dict[str, Any]:
    """What `add_engine_arguments` parsed, by the names of `SimOptions`."""
    values = {name: getattr(arguments, name) for name in _ENGINE_FLAGS}
    return values | {"faults": tuple(arguments.fault)}


_ENGINE_FLAGS = (
    "engine",
    "tokens_per_second",
    "prefill_tokens_per_second",
    "ttft_ms",
    "max_running_requests",
    "kv_capacity_tokens",
    "output_tokens",
    "context_tokens",
    "weight_version",
    "seed",
)
_PLACE_FLAGS = ("model", "host", "port", "dp_size", "api_key")


def options_from(arguments: argparse.Namespace) -> SimOptions:
    """The options that parsed arguments stand for. Raises ValueError."""
    place = {name: getattr(arguments, name) for name in _PLACE_FLAGS}
    return SimOptions(**engine_values(arguments), **place, may_crash=True)


def arguments_for(options: SimOptions) -> list[str]:
    """The flags that make `smg sim` run an engine with these options."""
    flags = []
    for field in fields(options):
        value = getattr(options, field.name)
        if field.name == "faults":
            for fault in value:
                flags += ["--fault", fault_spec(fault)]
        elif field.name != "may_crash" and value != field.default:
            flags.append(f"--{field.name.replace('_', '-')}={value}")
    return flags


async def _run(options: SimOptions) -> int:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    engine = SimEngine(options)
    try:
        await engine.start()
    except OSError as error:
        print(f"smg sim: cannot listen on {options.host}:{options.port}: {error}", file=sys.stderr)  # noqa: T201  a command talks to its user
        return 1
    print(f"simulated {options.engine} engine with {options.model} at {engine.url}", flush=True)  # noqa: T201  as above
    await stopping.wait()
    await engine.stop()
    return 0


def main(argv: list[str]) -> int:
    """Run `smg sim`; returns the process's exit status."""
    parser = _parser()
    try:
        options = options_from(parser.parse_args(argv))
    except ValueError as error:
        parser.error(str(error))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
