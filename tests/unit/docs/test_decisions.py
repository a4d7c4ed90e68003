import re

import pytest

SECTIONS = ("## Context", "## Decision", "## Consequences")


@pytest.fixture(scope="module")
def records(root):
    return sorted((root / "docs" / "decisions").glob("[0-9]*.md"))


def test_records_are_numbered_without_a_gap(records):
    assert [int(record.name[:4]) for record in records] == list(range(1, len(records) + 1))


def test_the_index_lists_every_record_by_its_title(root, records):
    index = (root / "docs" / "decisions" / "README.md").read_text(encoding="utf-8")
    for record in records:
        number, title = re.match(r"# ([0-9]{4})\. (.+)\n", record.read_text(encoding="utf-8")).groups()
        assert record.name.startswith(number)
        assert f"| [{number}]({record.name}) | {title} |" in index


def test_a_record_has_its_three_sections_in_order(records):
    for record in records:
        text = record.read_text(encoding="utf-8")
        places = [text.find(section) for section in SECTIONS]
        assert -1 < places[0] < places[1] < places[2], record.name
