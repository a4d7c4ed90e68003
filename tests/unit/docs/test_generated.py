import importlib.util

import pytest

from smg.errors import ERROR_KINDS


@pytest.fixture(scope="module")
def generate(root):
    spec = importlib.util.spec_from_file_location("docs_generate", root / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_pages_are_what_the_tables_give(generate):
    for place, made in generate.pages().items():
        committed = (generate.DOCS / place).read_text(encoding="utf-8")
        assert committed == made, f"docs/{place} is stale, run `make docs`"


def test_every_error_code_has_a_meaning_and_no_other_has(generate):
    assert set(generate.MEANINGS) == set(ERROR_KINDS)


def test_every_metric_has_a_place_on_its_page(generate):
    page = generate.metrics_page()
    assert all(f"| `{row.name}` |" in page for row in generate.TABLE)


def test_a_block_is_replaced_between_its_markers(generate):
    page = "before\n<!-- errors:begin -->\nold\n<!-- errors:end -->\nafter\n"
    assert generate.with_block(page, "new\n") == page.replace("old", "new")


BEGIN, END = "<!-- errors:begin -->", "<!-- errors:end -->"


@pytest.mark.parametrize("markers", ["", BEGIN, END + BEGIN, (BEGIN + END) * 2])
def test_a_page_without_exactly_one_pair_of_markers_is_refused(generate, markers):
    with pytest.raises(ValueError, match="once each"):
        generate.with_block(markers, "new")


def test_a_table_has_a_line_a_row(generate):
    assert generate.table(("a", "b"), [("1", "2")]) == "| a | b |\n|---|---|\n| 1 | 2 |\n"
