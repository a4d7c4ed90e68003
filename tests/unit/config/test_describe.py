from dataclasses import dataclass

from smg.config.describe import default_text, limits_text, placeholder, sections
from smg.config.forms import WORKER_URL
from smg.config.options import option, table_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Toy:
    size: int = option(7, "", section="A", minimum=1, maximum=9)
    wait_secs: float = option(1.0, "", section="A", above=0)
    urls: tuple[str, ...] = option((), "", section="B", form=WORKER_URL)
    colour: str | None = option(None, "", section="B", choices=("red", "blue"))
    quiet: bool = option(False, "", section="B")


SIZE, WAIT, URLS, COLOUR, QUIET = ROWS = table_of(Toy)


def test_a_placeholder_says_what_kind_of_value_is_meant():
    assert [placeholder(row) for row in ROWS] == ["N", "SECS", "URL ...", "CHOICE", ""]


def test_limits_are_words():
    assert [limits_text(row) for row in ROWS] == [
        "at least 1, at most 9",
        "above 0",
        "",
        "one of red, blue",
        "",
    ]


def test_a_default_is_as_one_would_type_it():
    assert [default_text(row) for row in ROWS] == ["7", "1", "none", "none", "false"]


def test_sections_keep_the_order_of_the_table():
    assert [(title, len(rows)) for title, rows in sections(ROWS)] == [("A", 2), ("B", 3)]
