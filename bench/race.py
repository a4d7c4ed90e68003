"""Running a workload: the sides take turns, A B A B, and what they showed is kept run by run."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from bench.gateways import Side
from bench.processes import ChildFailedError
from bench.runs import Figures
from bench.stage import Stage
from bench.stats import Spread, pair_ratios
from bench.together import Together
from bench.workloads import Measure, Workload

Entry = tuple[Side, tuple[str, ...]]  # with its flags

# A core is full above this share. When only the load side's is, the gateway may not have set the pace.
FULL = 0.95
# Above this share of a core, what others did there shows in wall-clock figures.
OTHERS_LIMIT = 0.1


@dataclass(slots=True)
class Outcome:
    """All runs of one workload: the figures of each side in running order."""

    workload: Workload
    figures: dict[str, list[Figures]] = field(default_factory=dict)
    failure: str = ""

    def values(self, side: str, measure: Measure) -> list[float]:
        return [figures[measure.key] for figures in self.figures.get(side, ())]

    def spread(self, side: str, measure: Measure) -> Spread | None:
        values = self.values(side, measure)
        return Spread.of(values) if values else None

    def ratio(self, measure: Measure) -> Spread | None:
        """Ours / the opponent's over the complete pairs, None when a side is missing or its figure is zero."""
        pairs = zip(self.values("ours", measure), self.values(self.workload.opponent, measure), strict=False)
        both = [(mine, theirs) for mine, theirs in pairs if theirs]
        return Spread.of(pair_ratios(*zip(*both, strict=True))) if both else None

    def verdict(self, measure: Measure) -> bool | None:
        """Whether the target is met; None without a target or without the figure that it speaks of."""
        target = measure.target
        if target is None:
            return None
        ours = self.spread("ours", measure)
        if ours is not None and target.met_by_ours(ours.median):
            return True
        judged = ours if target.of_ours else self.ratio(measure)
        return None if judged is None else target.met_by(judged.median)

    def load_side_limited(self) -> list[str]:
        """The sides in whose runs the load side's core was full while the gateway's was not."""
        return [
            side
            for side, runs in self.figures.items()
            if any(run.get("load_core_busy", 0) > FULL > run.get("gateway_core_busy", 1) for run in runs)
        ]

    def others_busy(self) -> float:
        """The largest share of either core that processes outside the race took in any run."""
        return max(
            (
                run[f"{core}_core_busy"] - run[f"{player}_busy"]
                for runs in self.figures.values()
                for run in runs
                for core, player in (("gateway", "gateway"), ("load", "load_side"))
                if "gateway_busy" in run
            ),
            default=0.0,
        )


def race(
    stage: Stage, workload: Workload, sides: Sequence[Side], tell: Callable[[int, Side, Figures], None]
) -> Outcome:
    """Run all pairs of a workload. A run that fails ends the workload and is reported in the outcome."""
    outcome = Outcome(workload)
    racing = [(side, workload.flags) for side in sides if side.name == "ours" or not workload.ours_only]
    if workload.rival is not None:
        racing = [(side, workload.flags) for side in sides if side.name == "ours"]
        racing += [(replace(side, name=workload.rival.name), workload.rival.flags) for side, _ in racing]
    for pair in range(min(stage.settings.pairs * workload.pairs_times, workload.most_pairs)):
        try:
            for side, figures in _one_each(stage, workload, racing):
                outcome.figures.setdefault(side.name, []).append(figures)
                tell(pair, side, figures)
        except ChildFailedError as error:
            outcome.failure = str(error)
            return outcome
    return outcome


def _one_each(stage: Stage, workload: Workload, racing: Sequence[Entry]) -> Iterator[tuple[Side, Figures]]:
    """One run for each side: one after the other, or all in one."""
    if isinstance(workload.run, Together):
        figures = workload.run(stage, racing, workload.fleet)
        yield from [(side, figures[side.name]) for side, _ in racing]
        return
    for side, flags in racing:
        try:
            yield side, workload.run(stage, side, flags, workload.fleet)
        except ChildFailedError as error:
            raise ChildFailedError(f"{side.name}: {error}") from error
