from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.config.argv import read_flags
from smg.config.options import option, table_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Toy:
    port: int = option(1, "", section="")
    key: str | None = option(None, "", section="", secret=True)
    urls: tuple[str, ...] = option((), "", section="")
    pairs: tuple[str, ...] = option((), "", section="", grouped=True)
    quiet: bool = option(False, "", section="", aliases=("--hushed",), off_flags=("--no-quiet",))


ROWS = table_of(Toy)


def read(line):
    found, problems = read_flags(line.split(), ROWS)
    return {name: given.texts for name, given in found.items()}, problems


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("", {}),
        ("--port 5", {"port": ("5",)}),
        ("--port=5", {"port": ("5",)}),
        ("--port -1", {"port": ("-1",)}),
        ("--port 5 --port 6", {"port": ("6",)}),
        ("--key -hush", {"key": ("-hush",)}),
        ("--key=a=b", {"key": ("a=b",)}),
        ("--urls a b --port 1 --urls c", {"urls": ("a", "b", "c"), "port": ("1",)}),
        ("--urls=a b", {"urls": ("a", "b")}),
        ("--urls", {"urls": ()}),
        ("--pairs a 1 --pairs b", {"pairs": ("a 1", "b")}),
        ("--quiet", {"quiet": ("true",)}),
        ("--hushed", {"quiet": ("true",)}),
        ("--quiet=no", {"quiet": ("no",)}),
        ("--quiet --no-quiet", {"quiet": ("false",)}),
    ],
)
def test_flags_give_texts(line, texts):
    assert read(line) == (texts, [])


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("--port", "--port: needs a value"),
        ("--port 1 2 3", "--port: takes one value, got 3"),
        ("--pairs", "--pairs: needs a value"),
        ("--quiet yes", "--quiet: takes no value, --quiet=false turns it off"),
        ("--no-quiet=true", "--no-quiet: takes no value, --quiet=false turns it off"),
        ("--prot 1", "--prot: unknown flag, did you mean --port?"),
        ("--zzz", "--zzz: unknown flag"),
        ("stray", "'stray' is no flag, every setting is given by one"),
    ],
)
def test_what_cannot_be_read_is_a_problem_that_names_the_flag(line, problem):
    assert read(line) == ({}, [problem])


def test_all_problems_are_found_and_the_rest_is_still_read():
    texts, problems = read("stray --zzz 1 --port --urls a")
    assert texts == {"urls": ("a",)}
    assert len(problems) == 3


def test_the_origin_is_the_flag_as_it_was_written():
    found, _ = read_flags(["--hushed"], ROWS)
    assert str(found["quiet"].origin) == "--hushed"


@pytest.mark.parametrize("line", ["--key hush hush", "--kye hush", "--kye=hush", "--quiet hush"])
def test_what_follows_a_flag_is_never_repeated(line):
    _, problems = read(line)
    assert len(problems) == 1
    assert "hush" not in problems[0].replace("--hushed", "")


@given(st.lists(st.sampled_from(["--port", "--urls", "--quiet", "--nope", "--", "-x", "a", "", "--port=1", "="])))
def test_any_command_line_is_read_or_refused_in_words(tokens):
    found, problems = read_flags(tokens, ROWS)
    assert found.keys() <= {row.field for row in ROWS}
    assert all(problems)
