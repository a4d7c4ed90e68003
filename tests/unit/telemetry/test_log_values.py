import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.telemetry.log_values import MAX_VALUE_CHARS, Redactor, cut, literal, one_line, quoted

anything = st.text(st.characters(exclude_categories=()))
NOTHING = Redactor()


@given(anything)
def test_a_quoted_text_is_printable_json_that_reads_back(text: str) -> None:
    shown = quoted(text)
    assert shown.isprintable()
    assert json.loads(shown) == json.loads(json.dumps(text))


@given(anything)
def test_a_message_stays_on_one_line(text: str) -> None:
    shown = one_line(text)
    assert shown.isprintable()
    assert len(shown.splitlines()) <= 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text é 字", '"plain text é 字"'),
        ('say "hi"', r'"say \"hi\""'),
        ("back\\slash", r'"back\\slash"'),
        ("a\nb\r\tc", r'"a\nb\r\tc"'),
        ("\x00\x1b[31m\x7f", r'"\u0000\u001b[31m\u007f"'),
        ("\x85\u2028\u2029", r'"\u0085\u2028\u2029"'),
        ("\ud800", r'"\ud800"'),
        ("\U000e0001", r'"\udb40\udc01"'),
    ],
)
def test_what_could_leave_its_quotes_or_its_line_is_escaped(text: str, shown: str) -> None:
    assert quoted(text) == shown


def test_a_printable_message_stays_as_it_is() -> None:
    assert one_line('loaded C:\\x "now"') == 'loaded C:\\x "now"'


def test_long_values_are_cut_and_say_so() -> None:
    assert cut("x" * MAX_VALUE_CHARS) == "x" * MAX_VALUE_CHARS
    assert cut("x" * (MAX_VALUE_CHARS + 1)) == "x" * MAX_VALUE_CHARS + "…"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (42, "42"),
        (0.25, "0.25"),
        (float("nan"), '"nan"'),
        (float("inf"), '"inf"'),
        ("text", '"text"'),
        ([1, "a"], "\"[1, 'a']\""),
        (ValueError("no\nway"), r'"no\nway"'),
    ],
)
def test_a_value_is_a_json_literal(value: object, shown: str) -> None:
    assert literal(value, NOTHING) == shown


def test_secrets_are_replaced_wherever_they_stand() -> None:
    redact = Redactor(["adm1n-key", "us3r-key!"])
    assert redact("Bearer adm1n-key, us3r-key!us3r-key!") == "Bearer [redacted], [redacted][redacted]"


def test_of_secrets_that_begin_alike_the_longest_is_replaced() -> None:
    assert Redactor(["secret", "secret-longer"])("a secret-longer b secret") == "a [redacted] b [redacted]"


def test_a_secret_is_taken_literally() -> None:
    redact = Redactor(["a.b*c+(d)"])
    assert redact("a.b*c+(d) axbbccd") == "[redacted] axbbccd"


@pytest.mark.parametrize("secrets", [[], [""], ["k"], ["five5"]])
def test_a_secret_that_ordinary_words_contain_is_left_alone(secrets: list[str]) -> None:
    assert Redactor(secrets)("five5 worker k") == "five5 worker k"


def test_a_secret_across_the_cut_does_not_leak_its_beginning() -> None:
    text = "x" * (MAX_VALUE_CHARS - 4) + "hush-hush-secret"
    assert "hush" not in literal(text, Redactor(["hush-hush-secret"]))
