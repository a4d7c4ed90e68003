"""What a metrics listener says, read back."""

import re
from dataclasses import dataclass

_SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(?P<name>[a-zA-Z_][a-zA-Z0-9_]*)="(?P<value>(?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Sample:
    name: str
    labels: dict
    value: float


class Scrape:
    """The samples of one scrape."""

    def __init__(self, text):
        self.text = text
        self.samples = [_sample(line) for line in text.splitlines() if line and not line.startswith("#")]

    def matching(self, name, **labels):
        """The samples of a metric that have these labels, whatever others they have."""
        return [s for s in self.samples if s.name == name and labels.items() <= s.labels.items()]

    def value(self, name, **labels):
        """Their sum; 0 when there is none, as a series appears with its first record."""
        return sum(sample.value for sample in self.matching(name, **labels))

    def labels(self, name):
        """The label sets of a metric."""
        return [sample.labels for sample in self.samples if sample.name == name]

    def values_of(self, label):
        """Every value that a label has anywhere."""
        return {sample.labels[label] for sample in self.samples if label in sample.labels}


def _sample(line):
    match = _SAMPLE.fullmatch(line)
    assert match, f"not a sample: {line!r}"
    labels = {found["name"]: found["value"] for found in _LABEL.finditer(match["labels"] or "")}
    return Sample(match["name"], labels, float(match["value"]))
