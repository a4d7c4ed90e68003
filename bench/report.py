"""The result page, the terminal table and the raw figures: three views of the same outcomes."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from bench.race import OTHERS_LIMIT, Outcome
from bench.stats import Spread
from bench.workloads import Measure

_VERDICTS = {True: "met", False: "missed", None: "-"}
_HEADINGS = ("workload", "measure", "ours", "published", "ratio", "target", "verdict")
# Unit -> divisor, the unit shown, decimals.
_SHOWN = {
    "req/s": (1, "", 0),
    "events/s": (1, "", 0),
    "us": (1, " µs", 1),
    "KB": (1024, " MiB", 1),
    "s": (1, " s", 2),
    "B/s": (1e6, " MB/s", 0),
    "share": (0.01, " %", 1),
    "times": (1, " times", 1),
    "": (1, "", 0),
}


def rows(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, ...]]:
    """One row a measure, in the order of `_HEADINGS`."""
    for outcome in outcomes:
        for measure in outcome.workload.measures:
            yield _row(outcome, measure)


def _row(outcome: Outcome, measure: Measure) -> tuple[str, ...]:
    ratio, workload = outcome.ratio(measure), outcome.workload
    theirs = amount(outcome.spread(workload.opponent, measure), measure.unit)
    return (
        workload.title,
        measure.title,
        amount(outcome.spread("ours", measure), measure.unit),
        theirs if workload.rival is None else f"{workload.rival.name}: {theirs}",
        "-" if ratio is None else f"{ratio.median:.2f} ({ratio.low:.2f}-{ratio.high:.2f})",
        _target(measure),
        "failed" if outcome.failure else _VERDICTS[outcome.verdict(measure)],
    )


def amount(spread: Spread | None, unit: str) -> str:
    """A figure in the unit it is shown in, with its extremes when there are any."""
    if spread is None:
        return "-"
    divisor, shown, decimals = _SHOWN[unit]
    median, low, high = (f"{value / divisor:,.{decimals}f}" for value in (spread.median, spread.low, spread.high))
    return f"{median}{shown}" if spread.low == spread.high else f"{median}{shown} ({low}-{high})"


def _target(measure: Measure) -> str:
    target = measure.target
    if target is None:
        return "-"
    sign = {">=": "≥", "<=": "≤"}[target.sign]
    divisor, shown, _ = _SHOWN[measure.unit]
    if target.of_ours:
        return f"ours {sign} {target.bound / divisor:,.12g}{shown}"
    either = "" if target.or_ours is None else f", or ours {sign} {target.or_ours / divisor:,.12g}{shown}"
    return f"{sign} {target.bound:,.12g}{either}"


def notes(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """What a reader must know before believing a row."""
    for outcome in outcomes:
        if outcome.failure:
            yield f"{outcome.workload.title}: {outcome.failure}"
        if outcome.others_busy() > OTHERS_LIMIT:
            share = f"{outcome.others_busy():.0%}"
            yield f"{outcome.workload.title}: other processes took up to {share} of a core"
        for side in outcome.load_side_limited():
            yield f"{outcome.workload.title}: the load side had no reserve and may have held {side} back"


def terminal_table(outcomes: Sequence[Outcome]) -> str:
    return aligned([_HEADINGS, *rows(outcomes)])


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Rows of cells in columns."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def markdown_table(headings: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    return ["| " + " | ".join(cells) + " |" for cells in (headings, ("---",) * len(headings), *body)]


def markdown(outcomes: Sequence[Outcome], facts: Mapping[str, str]) -> str:
    """The generated section of the page, without its markers."""
    lines = markdown_table(_HEADINGS, rows(outcomes))
    lines += ["", *(f"- {name}: {fact}" for name, fact in facts.items())]
    lines += [f"- Note: {note}" for note in notes(outcomes)]
    return "\n".join(lines)


def write_page(page: Path, name: str, section: str) -> None:
    """Replace what stands between a section's markers; raises `ValueError` when the page has none."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, begun, rest = page.read_text().partition(begin)
    _, ended, after = rest.partition(end)
    if not (begun and ended):
        raise ValueError(f"{page.name} has no {begin} ... {end} section")
    page.write_text(f"{before}{begin}\n{section}\n{end}{after}")


def write_raw(path: Path, outcomes: Sequence[Outcome], facts: Mapping[str, str]) -> None:
    """Every figure of every run, for whoever wants to judge for themselves."""
    workloads = {
        outcome.workload.name: {
            "title": outcome.workload.title,
            "failure": outcome.failure,
            "runs": outcome.figures,
        }
        for outcome in outcomes
    }
    path.write_text(json.dumps({"facts": facts, "workloads": workloads}, indent=1) + "\n")
