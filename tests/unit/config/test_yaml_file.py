from dataclasses import dataclass

import pytest

from smg.config.options import option, table_of
from smg.config.yaml_file import read_yaml


@dataclass(frozen=True, kw_only=True, slots=True)
class Toy:
    log_level: str = option("info", "", section="", aliases=("--verbosity",))
    key: str | None = option(None, "", section="", secret=True)
    urls: tuple[str, ...] = option((), "", section="")
    quiet: bool = option(False, "", section="")
    config: str | None = option(None, "", section="", in_file=False)


ROWS = table_of(Toy)


def read(text):
    found, problems = read_yaml(text, "smg.yaml", ROWS)
    return {name: given.texts for name, given in found.items()}, problems


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("", {}),
        ("# nothing\n", {}),
        ("log_level: warn", {"log_level": ("warn",)}),
        ("log-level: warn", {"log_level": ("warn",)}),
        ("verbosity: warn", {"log_level": ("warn",)}),
        ("key: 0123", {"key": ("0123",)}),
        ("key: 1e5", {"key": ("1e5",)}),
        ("quiet: yes", {"quiet": ("yes",)}),
        ("quiet: true", {"quiet": ("true",)}),
        ("key: null", {}),
        ("key: ~", {}),
        ("key:", {}),
        ("key: 'null'", {"key": ("null",)}),
        ("key: ''", {"key": ("",)}),
        ("urls: [a, b]", {"urls": ("a", "b")}),
        ("urls:\n- a\n- b\n", {"urls": ("a", "b")}),
        ("urls: a, b", {"urls": ("a", "b")}),
        ("urls: []", {"urls": ()}),
    ],
)
def test_keys_give_texts_as_they_are_written(text, texts):
    assert read(text) == (texts, [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("quiet: no\nlog_levle: warn", "smg.yaml:2: unknown key 'log_levle', did you mean log_level?"),
        ("zzz: 1", "smg.yaml:1: unknown key 'zzz'"),
        ("? [a]\n: 1", "smg.yaml:1: unknown key '?'"),
        ("config: x", "smg.yaml:1: unknown key 'config'"),
        ("log_level: a\nlog-level: b", "--log-level: is given twice (from smg.yaml:2)"),
        ("log_level: [a]", "--log-level: must be one plain value (from smg.yaml:1)"),
        ("urls: {a: b}", "--urls: must be a list of plain values (from smg.yaml:1)"),
        ("urls: [[a]]", "--urls: must be a list of plain values (from smg.yaml:1)"),
        ("- log_level", "smg.yaml: must map option names to values"),
        ("just text", "smg.yaml: must map option names to values"),
        ("quiet: no\nkey: 'a", "smg.yaml:2: is not valid YAML"),
        ("a: 1\n---\nb: 2", "smg.yaml:2: is not valid YAML"),
        ("a: \x07", "smg.yaml:1: is not valid YAML"),
    ],
)
def test_what_cannot_be_read_is_a_problem_that_says_where(text, problem):
    assert read(text)[1] == [problem]


@pytest.mark.parametrize(
    "text",
    ["key: *hush", "key: [hush]", "key: {hush: 1}", "key: 'hush", "key: !hush x", "hush", "key: %hush"],
)
def test_no_problem_repeats_a_value(text):
    assert "hush" not in "".join(read(text)[1])


def test_the_origin_is_the_line_of_the_key():
    found, _ = read_yaml("# a comment\nurls:\n- a\n", "smg.yaml", ROWS)
    assert str(found["urls"].origin) == "smg.yaml:2"
