"""The command: `python -m bench`, from the root of the repository."""

import argparse
from pathlib import Path

from bench import machine, published, report, start
from bench.gateways import Side, our_side, published_side
from bench.processes import Children
from bench.race import Outcome, race
from bench.runs import Figures
from bench.stage import Stage
from bench.start import PAGE, ROOT
from bench.stats import Spread
from bench.workloads import WORKLOADS, Workload


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    names = [workload.name for workload in WORKLOADS]
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, help="run these: %(choices)s")
    parser.add_argument("--gateway", choices=("ours", "published", "both"), default="both")
    parser.add_argument("--seconds", type=float, default=5.0, help="measured time of a timed run (%(default)s)")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each side (%(default)s)")
    parser.add_argument("--ours-cmd", help="our gateway's command, up to `launch` (default: this checkout)")
    parser.add_argument("--state-dir", type=Path, default=start.STATE_DIR, help="results and logs (.bench)")
    parser.add_argument("--published-venv", type=Path, help="where the published gateway is or will be installed")
    parser.add_argument("--write", action="store_true", help=f"write the table to docs/{PAGE.name}")
    args = parser.parse_args(argv)
    if args.write and (args.only or args.gateway != "both"):
        parser.error("--write needs all workloads and both gateways: the page shows one complete run")
    if args.pairs < 1 or args.seconds <= 0:
        parser.error("--pairs and --seconds must be positive")
    return args


def main() -> int:
    args = parse_args()
    settings = start.prepare(args.state_dir, seconds=args.seconds, pairs=args.pairs)
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
        report.write_page(PAGE, "bench", report.markdown(outcomes, facts))
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


def _sides(args: argparse.Namespace) -> list[Side]:
    sides = []
    if args.gateway != "published":
        sides.append(our_side(ROOT, args.ours_cmd))
    if args.gateway != "ours":
        venv = (args.published_venv or args.state_dir / "published").absolute()
        published.ensure_installed(venv)
        sides.append(published_side(venv))
    return sides


if __name__ == "__main__":
    start.run(main)
