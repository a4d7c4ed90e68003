from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.config.forms import KEY, WORKER_URL
from smg.config.options import Option
from smg.config.values import SECRET_SHOWN, convert, shown, spell

TEXT = Option(default="d", summary="", section="", field="text")
WHOLE = replace(TEXT, default=0, item=int)
NUMBER = replace(TEXT, default=0.0, item=float)
TRUTH = replace(TEXT, default=False, item=bool)
SECRET = replace(TEXT, secret=True, form=KEY)


def many(row):
    return replace(row, default=(), many=True)


@given(st.integers(-(10**15), 10**15))
def test_whole_numbers_read_back_from_their_spelling(number):
    assert convert(WHOLE, [spell(number)]) == (number, [])


@given(st.floats(-1e15, 1e15))
def test_numbers_read_back_from_their_spelling(number):
    assert convert(NUMBER, [spell(number)]) == (number, [])


@given(st.lists(st.integers(0, 10**6)))
def test_lists_of_numbers_read_back_from_their_spelling(numbers):
    assert convert(many(WHOLE), [spell(tuple(numbers))]) == (tuple(numbers), [])


@pytest.mark.parametrize("text", ["", "abc", "1.5", "0x10", "1_0", "\N{ARABIC-INDIC DIGIT ONE}", "1 ", "9" * 5000])
def test_what_is_no_whole_number_is_refused(text):
    value, complaints = convert(WHOLE, [text])
    assert value == WHOLE.default
    assert len(complaints) == 1


@pytest.mark.parametrize("text", ["", "abc", "nan", "inf", "-inf", "1e16"])
def test_what_is_no_finite_number_within_reach_is_refused(text):
    assert len(convert(NUMBER, [text])[1]) == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("Yes", True), ("1", True), ("FALSE", False), ("no", False), ("0", False)],
)
def test_truth_has_several_spellings(text, value):
    assert convert(TRUTH, [text]) == (value, [])


@pytest.mark.parametrize("text", ["", "maybe", "2"])
def test_anything_else_is_neither_true_nor_false(text):
    assert len(convert(TRUTH, [text])[1]) == 1


def test_a_text_is_neither_empty_nor_holds_control_characters():
    assert convert(TEXT, [""])[1] == ["must not be empty, got ''"]
    assert "control characters" in convert(TEXT, ["key\n"])[1][0]


def test_a_choice_is_spelled_exactly():
    row = replace(TEXT, choices=("red", "blue"))
    assert convert(row, ["red"]) == ("red", [])
    assert convert(row, ["Red"])[1] == ["must be one of red, blue, got 'Red'"]


def test_every_bad_item_of_a_list_is_named():
    complaints = convert(many(replace(TEXT, form=WORKER_URL)), ["a:1", "http://ok", "b:2"])[1]
    assert [complaint.rpartition(" ")[2] for complaint in complaints] == ["'a:1'", "'b:2'"]


def test_a_list_of_texts_keeps_each_once_in_order():
    assert convert(many(TEXT), ["b", "a", "b"]) == (("b", "a"), [])


def test_a_list_of_numbers_may_be_separated_by_commas_and_keeps_repetitions():
    assert convert(many(NUMBER), ["1,2", "2"]) == ((1.0, 2.0, 2.0), [])


def test_a_complaint_about_a_secret_does_not_repeat_it():
    assert convert(SECRET, [" hush"])[1] == ["must not begin or end with white space"]


def test_a_complaint_hides_the_credentials_of_a_url():
    complaint = convert(replace(TEXT, form=WORKER_URL), ["http://me:hush@h"])[1][0]
    assert "hush" not in complaint
    assert "http://***@h" in complaint


def test_a_secret_is_shown_as_set_or_not_at_all():
    assert shown(SECRET, "hush") == SECRET_SHOWN
    assert shown(SECRET, None) == ""
    assert shown(many(SECRET), ("hush",)) == SECRET_SHOWN
    assert shown(many(SECRET), ()) == ""
    assert shown(TEXT, "plain") == "plain"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (True, "true"), (60.0, "60"), (0.25, "0.25"), ((1.0, 2.5), "1 2.5"), ("x", "x")],
)
def test_values_are_spelled_as_one_would_type_them(value, text):
    assert spell(value) == text
