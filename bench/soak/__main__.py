"""The command: `python -m bench.soak`, from the root of the repository. Exit status 1 when a promise is broken."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from bench import machine, report, start
from bench.gateways import our_side
from bench.processes import ChildFailedError, Children
from bench.soak.accounts import rows
from bench.soak.promises import Promise, judge, summary
from bench.soak.run import CLIENTS, ENGINE_PROCESSES, ENGINES_EACH, Soak, Story

_HEADINGS = ("what must hold", "found", "verdict")
_VERDICTS = {True: "kept", False: "broken"}


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=150.0, help="time under load (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other accidents (%(default)s)")
    parser.add_argument("--ours-cmd", help="the gateway's command, up to `launch` (default: this checkout)")
    parser.add_argument("--state-dir", type=Path, default=start.STATE_DIR, help="results and logs (.bench)")
    parser.add_argument("--write", action="store_true", help=f"write the section to docs/{start.PAGE.name}")
    args = parser.parse_args(argv)
    if args.seconds <= 0:
        parser.error("--seconds must be positive")
    return args


def main() -> int:
    args = parse_args()
    settings = start.prepare(args.state_dir, seconds=args.seconds)
    side = our_side(start.ROOT, args.ours_cmd)
    workers = ENGINE_PROCESSES * ENGINES_EACH
    print(f"{workers} simulated workers, {CLIENTS} clients, {args.seconds:.0f} s, seed {args.seed}", flush=True)
    try:
        with Children() as children:
            story = Soak(settings, children, side, args.seed).run()
    except ChildFailedError as error:
        sys.exit(f"the soak did not come to its end: {error}")
    promises = judge(story.accounts, story.executions, story.evidence)
    lines = [
        *summary(story.accounts, story.executions),
        story.efforts,
        f"{story.removals} workers removed and registered again",
    ]
    print("\n".join(lines) + "\n\n" + report.aligned([_HEADINGS, *map(_row, promises)]))
    for complaint in story.evidence.complaints[:10]:
        print(f"log: {complaint}")
    _write_raw(settings.state_dir / "soak.json", story)
    if args.write:
        facts = machine.facts() | {"ours": f"smg {side.version}"}
        report.write_page(start.PAGE, "soak", _section(promises, lines, facts, args))
    return int(not all(promise.kept for promise in promises))


def _row(promise: Promise) -> tuple[str, str, str]:
    return promise.title, promise.found, _VERDICTS[promise.kept]


def _section(promises: list[Promise], lines: list[str], facts: dict[str, str], args: argparse.Namespace) -> str:
    run = f"Run: {args.seconds:.0f} s under load, {CLIENTS} clients, {ENGINE_PROCESSES * ENGINES_EACH} workers"
    table = report.markdown_table(_HEADINGS, map(_row, promises))
    items = [f"{run}, seed {args.seed}", *lines, *(f"{name}: {fact}" for name, fact in facts.items())]
    return "\n".join([*table, "", *(f"- {item}" for item in items)])


def _write_raw(path: Path, story: Story) -> None:
    """Both accounts in full, for whoever wants to see what became of a request."""
    raw = {
        "evidence": asdict(story.evidence),
        "rss_kb": story.rss_kb,
        "requests": rows(story.accounts),
        "executions": rows(story.executions),
    }
    path.write_text(json.dumps(raw) + "\n")


if __name__ == "__main__":
    start.run(main)
