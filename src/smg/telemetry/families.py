"""A family of series: one metric's children by their label values, kept bounded.

Label values come from outside (models, methods, paths), so nothing here may grow with what callers invent:
`label_rules` folds the values of some labels, every value is cut and cleaned, and a full family sends new
label sets to one series whose every label reads "other". Values may also be read through callbacks when a
scrape asks, so that hot code keeps nothing twice. Which families there are is the table's business
(`metrics.py`), their text `exposition.py`'s.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, Literal

from smg.telemetry.instruments import C_co

Kind = Literal["counter", "gauge", "histogram", "summary"]
Labels = tuple[str, ...]
LabelRule = Callable[[str], str]
Reader = Callable[[], float | None]
Source = Callable[[], Iterable[tuple[Labels, float]]]

OTHER = "other"
MAX_CHILDREN = 10_000
MAX_LABEL_CHARS = 256
# How many values a label that names things of the outside may take over the life of a process.
MAX_NAMED_VALUES = 1024
METHODS = frozenset({"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"})

_logger = logging.getLogger("smg.telemetry")


class ValueCap:
    """A label rule: the first `limit` values stand for themselves, later ones become "other"."""

    __slots__ = ("_limit", "_seen")

    def __init__(self, limit: int = MAX_NAMED_VALUES) -> None:
        self._limit = limit
        self._seen: set[str] = set()

    def __call__(self, value: str) -> str:
        if value in self._seen:
            return value
        if len(self._seen) >= self._limit:
            return OTHER
        self._seen.add(value)
        return value


def known_method(value: str) -> str:
    """A label rule: the HTTP methods that are routed, and OTHER for whatever else a client may invent."""
    return value if value in METHODS else "OTHER"


def label_rules() -> dict[str, LabelRule]:
    """The rules by label name; all families of a process share one set, so that a cap is the process's."""
    return {"method": known_method, "model": ValueCap()}


def clean(value: str) -> str:
    """`value` as a label: at most `MAX_LABEL_CHARS` long, what cannot be printed or encoded as U+FFFD."""
    value = value[:MAX_LABEL_CHARS]
    if value.isprintable():
        return value
    return "".join(char if char.isprintable() else "\ufffd" for char in value)


class Family(Generic[C_co]):
    """All series of one metric; it has at most `max_children` of its own, and the one that takes the rest.

    `labels` gives the child of a label set, the same each time: resolve it once and keep it. A child that
    was removed still counts for whoever holds it, but is not shown any more.
    """

    __slots__ = (
        "_children",
        "_make",
        "_max_children",
        "_readers",
        "_rules",
        "_sources",
        "help",
        "kind",
        "label_names",
        "name",
    )

    def __init__(
        self,
        name: str,
        kind: Kind,
        label_names: Labels,
        *,
        help: str,  # noqa: A002  the exposition format's own word
        make: Callable[[], C_co],
        rules: Mapping[str, LabelRule],
        max_children: int = MAX_CHILDREN,
    ) -> None:
        self.name = name
        self.kind = kind
        self.label_names = label_names
        self.help = help
        self._make = make
        self._rules = tuple(rules.get(label) for label in label_names)
        self._max_children = max_children
        self._children: dict[Labels, C_co] = {}
        self._readers: dict[Labels, Reader] = {}
        self._sources: list[Source] = []

    def labels(self, *values: str) -> C_co:
        """The child for these label values, in the order of `label_names`.

        Raises:
            ValueError: another number of values than the metric has labels.
        """
        child = self._children.get(values)
        return self._child(values) if child is None else child

    def function(self, *values: str, read: Reader) -> None:
        """Ask `read` for this series at every scrape; its None means that there is nothing to show.

        Raises:
            TypeError: histograms and summaries are recorded, not read.
            ValueError: another number of values than the metric has labels.
        """
        self._require_plain_value()
        self._readers[self._bounded(values)] = read

    def source(self, read: Source) -> None:
        """Ask `read` at every scrape for label values and numbers of series that come and go.

        Label sets that fold together ("other") are summed.

        Raises:
            TypeError: histograms and summaries are recorded, not read.
        """
        self._require_plain_value()
        self._sources.append(read)

    def remove_matching(self, **labels: str) -> int:
        """End every series with these label values and say how many there were.

        What a source yields is the source's to stop.

        Raises:
            ValueError: the metric has no such label.
        """
        if unknown := labels.keys() - set(self.label_names):
            raise ValueError(f"{self.name} has no label {', '.join(sorted(unknown))}")
        wanted = [(self.label_names.index(name), clean(value)) for name, value in labels.items()]
        removed = 0
        for series in (self._children, self._readers):
            gone = [key for key in list(series) if all(key[at] == value for at, value in wanted)]
            for key in gone:
                series.pop(key, None)
            removed += len(gone)
        return removed

    def recorded(self) -> list[tuple[Labels, C_co]]:
        """The children that have something to show."""
        return [(labels, child) for labels, child in list(self._children.items()) if child.recorded]

    def readings(self) -> dict[Labels, float]:
        """What the callbacks say now. One that raises is left out and logged: a scrape shows the rest."""
        found: dict[Labels, float] = {}
        for source in self._sources:
            try:
                for labels, value in source():
                    key = self._bounded(labels)
                    found[key] = found.get(key, 0) + value
            except Exception:
                _logger.exception("a metric's source failed: %s", self.name)
        for labels, reader in list(self._readers.items()):
            try:
                reading = reader()
            except Exception:
                _logger.exception("a metric's function failed: %s", self.name)
            else:
                if reading is not None:
                    found[labels] = reading
        return found

    def _child(self, values: Labels) -> C_co:
        key = self._bounded(values)
        child = self._children.get(key)
        if child is None:
            if len(self._children) >= self._max_children:
                key = (OTHER,) * len(key)
            # setdefault, for two threads may ask for the same new child.
            child = self._children.setdefault(key, self._make())
        return child

    def _bounded(self, values: Labels) -> Labels:
        if len(values) != len(self.label_names):
            raise ValueError(f"{self.name} has labels {self.label_names}, got {values}")
        return tuple(
            rule(clean(value)) if rule else clean(value) for rule, value in zip(self._rules, values, strict=True)
        )

    def _require_plain_value(self) -> None:
        if self.kind not in {"counter", "gauge"}:
            raise TypeError(f"{self.name} is a {self.kind}: only counters and gauges are read through callbacks")
