"""The command: `python -m bench`, from the root of the repository."""

import argparse
import os
import resource
import signal
import sys
from pathlib import Path
from typing import NoReturn

from bench import machine, published, report
from bench.gateways import Side, our_side, published_side
from bench.processes import Children
from bench.race import Outcome, race
from bench.runs import Figures
from bench.stage import Settings, Stage
from bench.stats import Spread
from bench.workloads import WORKLOADS, Workload

_ROOT = Path(__file__).resolve().parent.parent
_PAGE = _ROOT / "docs" / "benchmarks.md"
# 1,000 streams cost a gateway 2,000 descriptors; the common default is 1,024.
_OPEN_FILES = 16_384


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    names = [workload.name for workload in WORKLOADS]
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, help="run these: %(choices)s")
    parser.add_argument("--gateway", choices=("ours", "published", "both"), default="both")
    parser.add_argument("--seconds", type=float, default=5.0, help="measured time of a timed run (%(default)s)")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each side (%(default)s)")
    parser.add_argument("--ours-cmd", help="our gateway's command, up to `launch` (default: this checkout)")
    parser.add_argument("--state-dir", type=Path, default=_ROOT / ".bench", help="results and logs (.bench)")
    parser.add_argument("--published-venv", type=Path, help="where the published gateway is or will be installed")
    parser.add_argument("--write", action="store_true", help=f"write the table to docs/{_PAGE.name}")
    args = parser.parse_args(argv)
    if args.write and (args.only or args.gateway != "both"):
        parser.error("--write needs all workloads and both gateways: the page shows one complete run")
    if args.pairs < 1 or args.seconds <= 0:
        parser.error("--pairs and --seconds must be positive")
    return args


def main() -> int:
    args = parse_args()
    signal.signal(signal.SIGTERM, _stop)
    _raise_open_files()
    settings = _settings(args)
    sides = _sides(args)
    facts = machine.facts() | {side.name: f"smg {side.version}" for side in sides}
    outcomes: list[Outcome] = []
    with Children() as children:
        stage = Stage(settings, children)
        for workload in WORKLOADS:
            chosen = args.only is None or workload.name in args.only
            if chosen and (args.gateway != "published" or not workload.needs_ours):
                outcomes.append(_race(stage, workload, sides))
                report.write_raw(settings.state_dir / "results.json", outcomes, facts)
    print("\n" + report.terminal_table(outcomes))
    for note in report.notes(outcomes):
        print(f"note: {note}")
    failed = any(outcome.failure for outcome in outcomes)
    if args.write and not failed:
        report.write_page(_PAGE, report.markdown(outcomes, facts))
    return int(failed)


def _race(stage: Stage, workload: Workload, sides: list[Side]) -> Outcome:
    print(f"\n{workload.title}", flush=True)

    def tell(pair: int, side: Side, figures: Figures) -> None:
        shown = "   ".join(
            f"{measure.title} {report.amount(Spread.of([figures[measure.key]]), measure.unit)}"
            for measure in workload.measures
        )
        print(f"  {pair + 1}  {side.name:<9}  {shown}", flush=True)

    outcome = race(stage, workload, sides, tell)
    if outcome.failure:
        print(f"  failed: {outcome.failure}", flush=True)
    return outcome


def _settings(args: argparse.Namespace) -> Settings:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        sys.exit("the race needs two cores: one for the gateway, one for the load side")
    os.sched_setaffinity(0, {cores[1]})  # the harness must not disturb the gateway's core either
    state_dir = args.state_dir.absolute()
    state_dir.mkdir(parents=True, exist_ok=True)
    (state_dir / ".gitignore").write_text("*\n")
    return Settings(_ROOT, state_dir, args.seconds, args.pairs, gateway_core=cores[0], load_core=cores[1])


def _sides(args: argparse.Namespace) -> list[Side]:
    sides = []
    if args.gateway != "published":
        sides.append(our_side(_ROOT, args.ours_cmd))
    if args.gateway != "ours":
        venv = (args.published_venv or args.state_dir / "published").absolute()
        published.ensure_installed(venv)
        sides.append(published_side(venv))
    return sides


def _raise_open_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _stop(_signal: int, _frame: object) -> NoReturn:
    raise SystemExit(143)  # unwinds through `Children`, as Ctrl-C does


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
